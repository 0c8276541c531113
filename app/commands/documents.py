"""Decides how the commands about stored documents speak: ls, show, rm, search. They only translate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app import terminal
from app.filters import Pages, Since, Until, WithTags, filters
from app.people.rights import base_name
from app.problem import Problem, tell
from app.settings import Settings
from app.words import page_words

if TYPE_CHECKING:
    from app.assistant import Assistant
    from ingest.search import Hit
    from ingest.store import StoredDocument


Kb = Annotated[str, typer.Option("--kb", callback=base_name, help="The knowledge base.")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="A line of JSON for each row on stdout, and nothing else.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, and nothing else.")]
DocumentWords = Annotated[
    str, typer.Argument(metavar="DOC", help="An id, the beginning of one, a file name or a title.")
]


def opened(**flags: Any) -> Assistant:
    """The home's documents, with the settings that `flags` set for this command."""
    from app.assistant import Assistant

    return Assistant.open(Settings.load(**flags))


def ls(kb: Kb = "default", jsonl: Jsonl = False) -> None:
    """List the documents of a knowledge base."""
    documents = opened().documents(kb)
    if jsonl:
        for document in documents:
            terminal.print_json(_listed(document, kb))
        return
    if not documents:
        terminal.say(_none_yet(kb))
        return
    shown = terminal.table("id", "title", "file", "state", "pages", "tokens", right=("pages", "tokens"))
    for document in documents:
        shown.add_row(
            document.id[:8],
            terminal.safe(document.title),
            terminal.safe(document.name),
            _state(document),
            f"{document.pages:,}",
            f"{document.tokens:,}",
        )
    terminal.out().print(shown)


def _none_yet(kb: str) -> str:
    where = "" if kb == "default" else f" --kb {kb}"
    inside = "" if kb == "default" else f" in “{kb}”"
    return f"No documents{inside} yet; `readonce add FILE{where}` takes one in."


def _state(document: StoredDocument) -> str:
    """ "ok", "no text", or how far it is where it is found by its words alone so far."""
    if document.is_embedding:
        return f"embedding, {document.embedded:,} of {document.passages:,}"
    return document.status.replace("_", " ")


def show(
    words: DocumentWords,
    page: Annotated[int | None, typer.Option("--page", min=1, help="Print the text of this sheet.")] = None,
    kb: Kb = "default",
    as_json: Json = False,
) -> None:
    """Show a document: its sections, or the text of one page."""
    assistant = opened()
    stored = assistant.find(words, kb)
    document = assistant.corpus.read_document(stored.id)
    sections = assistant.corpus.sections(stored.id)
    if page is not None:
        if page > len(document.pages):
            count = terminal.count(len(document.pages), "page")
            raise Problem("no_such_page", f"“{stored.title}” has {count}, there is no page {page}.", usage=True)
        sheet = document.pages[page - 1]
        if as_json:
            terminal.print_json(
                {
                    "document_id": stored.id,
                    "page": sheet.number,
                    "label": sheet.label,
                    "text": sheet.text,
                    "origin": sheet.origin,
                }
            )
        else:
            terminal.say(f"{stored.title}, {page_words(sheet.number, sheet.label, len(document.pages))}")
            terminal.out().print(terminal.safe(sheet.text))
        return
    if as_json:
        terminal.print_json(_listed(stored, kb) | {"sections": terminal.plain(sections)})
        return
    terminal.out().print(terminal.safe(stored.title), style="bold")
    terminal.out().print(
        f"{stored.id}, {document.kind}, {terminal.count(len(document.pages), 'page')}, {stored.tokens:,} tokens",
        style="dim",
    )
    if stored.tags:
        terminal.out().print(terminal.safe(f"tags: {', '.join(stored.tags)}"), style="dim")
    if stored.is_embedding:
        terminal.out().print(
            f"{_state(stored)} passages: the rest is found by its words; `readonce add` goes on with it", style="yellow"
        )
    shown = terminal.table("section", "title", "pages", "tokens", right=("section", "pages", "tokens"))
    for section in sections:
        pages = (
            f"{section.first_page}"
            if section.first_page == section.last_page
            else f"{section.first_page}-{section.last_page}"
        )
        shown.add_row(str(section.number), terminal.safe(section.title), pages, f"{section.num_tokens:,}")
    terminal.out().print(shown)
    for warning in document.warnings:
        terminal.out().print(terminal.safe(warning), style="yellow")


def rm(
    words: Annotated[list[str], typer.Argument(metavar="DOC", help="Ids, beginnings of ids, file names or titles.")],
    kb: Kb = "default",
    jsonl: Jsonl = False,
) -> None:
    """Remove documents. When this returns nothing finds them any more."""
    from app.commands.people import deeds

    assistant = opened()
    log = deeds()
    failed = 0
    for word in words:
        try:
            stored = assistant.find(word, kb)
            assistant.remove(stored.id, kb)
            log.deleted(kb, stored.name, stored.id)
        except Exception as error:  # one unknown name never stops the others
            row = refused(error, Path(word))
            failed += 1
            terminal.complain(Problem(row["error"]["code"], row["error"]["message"]))
            row = {"document": word, "status": "error", "error": row["error"]}
        else:
            row = {"document": word, "status": "removed", "document_id": stored.id}
            if not jsonl:
                terminal.out().print(terminal.safe(f"removed  {stored.title}"))
        if jsonl:
            terminal.print_json(row)
    finish(failed, len(words))


def tag(
    words: DocumentWords,
    tags: Annotated[list[str] | None, typer.Argument(metavar="TAG", help="Tags that it is given.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", metavar="TAG", help="A tag to take away.")] = None,
    kb: Kb = "default",
    as_json: Json = False,
) -> None:
    """Give a document tags, to search among some documents only (--tag); print what it bears now."""
    assistant = opened()
    stored = assistant.find(words, kb)
    borne = stored.tags
    if tags or remove:
        borne = assistant.corpus.change_tags(stored.id, kb, add=tags or (), remove=remove or ())
    assistant.corpus.close()
    if as_json:
        terminal.print_json({"document_id": stored.id, "tags": list(borne)})
    else:
        terminal.out().print(terminal.safe(f"{stored.title}: {', '.join(borne) or 'no tags'}"))


def rebuild() -> None:
    """Cut and embed all stored texts again, after another embedder was set; the old index serves meanwhile."""
    assistant = opened()
    documents = len({document.id for kb in assistant.corpus.kbs() for document in assistant.documents(kb)})
    with terminal.bars("documents", documents) as bars:
        stage = bars.stage("embedding")
        num_passages = assistant.corpus.rebuild(stage)
    embedder = assistant.corpus.embedder.name
    counts = terminal.count(documents, "document"), terminal.count(num_passages, "passage")
    terminal.out().print(terminal.safe(f"{counts[0]}, {counts[1]} embedded anew with {embedder}"))
    assistant.corpus.close()


def search(
    question: Annotated[str, typer.Argument(metavar='"QUESTION"', help="What is looked for.")],
    kb: Kb = "default",
    doc: Annotated[str | None, typer.Option("--doc", help="Search in this document only.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many passages.")] = 10,
    pages: Pages = None,
    with_tags: WithTags = None,
    since: Since = None,
    until: Until = None,
    full: Annotated[bool, typer.Option("--full", help="Print whole passages, not only where the words stand.")] = False,
    jsonl: Jsonl = False,
) -> None:
    """Find passages, best first. No model is asked."""
    wanted = filters(pages, with_tags, since, until)
    assistant = opened()
    doc_id = None if doc is None else assistant.find(doc, kb).id
    hits = assistant.search(question, kb=kb, doc_id=doc_id, k=k, filters=wanted)
    if jsonl:
        for hit in hits:
            names = "doc_id", "page", "start", "end", "score", "text"
            terminal.print_json({name: getattr(hit, name) for name in names})
        return
    if not hits:
        terminal.say("Nothing found." if assistant.documents(kb) else _none_yet(kb))
    titles = {document.id: document.title for document in assistant.documents(kb)}
    for number, hit in enumerate(hits, 1):
        places = [
            titles[hit.doc_id],
            page_words(hit.page, hit.label),
            *_section_title(assistant, hit, titles[hit.doc_id]),
        ]
        terminal.out().print(terminal.safe(f"{number}. {', '.join(places)} (score {hit.score:.2f})"), style="bold")
        terminal.out().print(_found(hit.text, question, full))


def _section_title(assistant: Assistant, hit: Hit, title: str) -> list[str]:
    """The title of the section that a hit begins in, where it says more than the document's."""
    sections = assistant.corpus.sections(hit.doc_id)
    return [each.title for each in sections if each.start <= hit.start < each.end and each.title not in ("", title)][:1]


def _found(text: str, question: str, full: bool) -> Any:
    from rich.text import Text

    from app.marking import whole, window

    shown = Text()
    for piece in (whole if full else window)(text, question):
        shown.append_text(terminal.safe(piece.text)).stylize("underline" if piece.marked else "", -len(piece.text))
    return shown


def refused(error: Exception, file: Path) -> dict[str, Any]:
    """The row of a file that was not taken in; raises what nobody foresaw."""
    problem = tell(error)
    if problem is None:
        raise error
    return {"file": str(file), "status": "error", "error": {"code": problem.code, "message": problem.message}}


def _listed(document: StoredDocument, kb: str) -> dict[str, Any]:
    return {
        "document_id": document.id,
        "kb": kb,
        "title": document.title,
        "file": document.name,
        "kind": document.kind,
        "status": document.status,
        "pages": document.pages,
        "passages": document.passages,
        "embedded": document.embedded,
        "tokens": document.tokens,
        "added_at": document.added_at,
        "tags": list(document.tags),
        "warnings": list(document.warnings),
    }


def finish(failed: int, count: int) -> None:
    """Ends a command over `count` items with the exit code that says how many of them failed."""
    if failed:
        raise typer.Exit(terminal.FAILED if failed == count else terminal.SOME_FAILED)
