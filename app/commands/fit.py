"""Decides how `readonce fit` speaks: what stays warm on a GPU, and the line to start vLLM with. It only translates."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from app import terminal
from app.commands.documents import Json
from app.problem import Problem, tell
from app.settings import Settings

if TYPE_CHECKING:
    from engine.card import Card
    from engine.fit import Fit

LENGTHS = (8_000, 16_000, 30_000, 60_000, 120_000)
PORT = 8000


@dataclass(frozen=True)
class Launch:
    """How to start vLLM with our plugin in it, and how to tell readonce the same.

    Attributes:
        environment, command: Of vLLM's server.
        settings: Variables of readonce.
    """

    environment: dict[str, str]
    command: tuple[str, ...]
    settings: dict[str, str]


def fit(
    gpu: Annotated[
        str, typer.Option("--gpu", metavar="GPU", help="24GB, H200, cpu, or auto: what is here.", show_default=True)
    ] = "auto",
    model: Annotated[str | None, typer.Option("--model", help="A name, a hub id or a folder.")] = None,
    context: Annotated[
        int | None, typer.Option("--context", min=1, help="Tokens of document and answer that have to fit at once.")
    ] = None,
    kv: Annotated[
        Literal["bf16", "fp8"] | None, typer.Option("--kv", help="How keys and values are kept.", show_default=False)
    ] = None,
    documents: Annotated[
        int | None, typer.Option("--documents", min=1, help="How many documents of that length have to stay warm.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how many documents stay warm on a GPU, and how to start vLLM for it."""
    try:
        card, settings = _on(gpu, model, kv)
        fitted = _fit(card, settings)
        length = context or settings.section_budget
        fitted.refuse_memory()
        if context and fitted.shape.context and context > fitted.shape.context:
            raise Problem(
                "max_model_len_too_large",
                f"{settings.model_name} reads at most {fitted.shape.context:,} tokens, not {context:,}: "
                "give a shorter context.",
            )
        fitted.refuse_context(context or 1)
        if documents is not None:
            fitted.refuse_documents(documents, length)
        row = _row(card, settings, fitted, context)
    except Exception as error:
        problem = tell(error)
        if problem is None:
            raise
        terminal.fail(problem, as_json)
    if as_json:
        terminal.print_json(row)
    else:
        terminal.out().print(_page(row))


def _on(gpu: str, model: str | None, kv: str | None) -> tuple[Card | None, Settings]:
    """The card (None: a CPU), and readonce's settings as they would be on that machine."""
    from engine.base import EngineError
    from engine.card import named_card, read_card
    from engine.profiles import profile_for

    if gpu.lower() == "auto":
        settings = Settings.load(model=model, kv_dtype=kv)
        if not settings.on_gpu:
            return None, settings
        return read_card() or named_card(f"{settings.engine_profile.memory_gib:g}"), settings
    if gpu.lower() == "cpu":
        return None, Settings.load(model=model, kv_dtype=kv, device="cpu", profile="cpu")
    try:
        card = named_card(gpu)
    except EngineError as error:
        raise Problem(error.code, error.message, usage=True) from error
    profile = profile_for(card.memory_gib).name
    return card, Settings.load(model=model, kv_dtype=kv, device="gpu", profile=profile)


def _fit(card: Card | None, settings: Settings) -> Fit:
    from engine.card import GIB, memory_of_machine_gib
    from engine.fit import fit as fit_shape
    from engine.models import find_shape

    memory_bytes = card.memory_bytes if card else int(memory_of_machine_gib() * GIB)
    return fit_shape(settings.engine, settings.engine_profile, find_shape(settings.model_name), memory_bytes)


def _launch(settings: Settings, max_model_len: int) -> Launch:
    from engine.knobs import STEP_MS
    from engine.registry import REGISTRY
    from engine.server import command_line

    name, profile = settings.model_name, settings.engine_profile
    known = REGISTRY.get(name)
    flags = command_line(
        replace(settings.engine, max_model_len=max_model_len),
        Path(known.hub_id if known else name),
        PORT,
        name=name,
        device=profile.device,
    )
    ours = {"READONCE_PROFILE": profile.name}
    if max_model_len != profile.max_model_len:
        ours["READONCE_MAX_MODEL_LEN"] = str(max_model_len)
    if settings.kv_dtype != "auto":
        ours["READONCE_KV_DTYPE"] = settings.kv_dtype
    command = ("python", "-m", "vllm.entrypoints.openai.api_server", *flags)
    return Launch({"VLLM_PLUGINS": "readonce", STEP_MS: str(profile.step_ms)}, command, ours)


def _row(card: Card | None, settings: Settings, fitted: Fit, context: int | None) -> dict[str, Any]:
    from engine.card import GIB

    pool, in_fp8 = fitted.pool, fitted.in_fp8.pool
    max_model_len = context or fitted.max_model_len
    most = fitted.shape.context or max(LENGTHS)
    lengths = sorted({settings.section_budget, *LENGTHS, *([context] if context else [])})
    return {
        "gpu": card.name if card else None,
        "profile": fitted.profile.name,
        "model": settings.model_name,
        "kv_cache_dtype": fitted.kv_cache_dtype,
        "memory_gib": round(fitted.memory_bytes / GIB, 2),
        "usable_gib": None if fitted.usable_bytes is None else round(fitted.usable_bytes / GIB, 2),
        "weights_gib": round(fitted.weight_bytes / GIB, 2),
        "step_gib": round(fitted.step_bytes / GIB, 2),
        "pool_gib": round(pool.num_bytes / GIB, 2),
        "kv_bytes_per_token": pool.bytes_per_token,
        "block_size": pool.block_size,
        "num_blocks": pool.num_blocks,
        "pool_tokens": pool.num_tokens,
        "longest_context": pool.longest_context,
        "max_model_len": max_model_len,
        "section_tokens": settings.section_budget,
        "documents": [
            {"tokens": length, "warm": pool.num_documents(length), "warm_in_fp8": in_fp8.num_documents(length)}
            for length in lengths
            if length <= most
        ],
        "launch": terminal.plain(_launch(settings, max_model_len)),
    }


def _page(row: dict[str, Any]) -> Any:
    from rich.console import Group

    launch = row["launch"]
    variables = " ".join(f"{name}={value}" for name, value in launch["environment"].items())
    heads = ("documents of", "stay warm") if row["kv_cache_dtype"] == "fp8" else ("documents of", "stay warm", "in fp8")
    shown = terminal.table(*heads, right=heads)
    for document in row["documents"]:
        cells = (f"{document['tokens']:,} tokens", f"{document['warm']:,}", f"{document['warm_in_fp8']:,}")
        shown.add_row(*cells[: len(heads)])
    return Group(
        terminal.safe(_memory_words(row)),
        "",
        shown,
        "One more document's worth is kept free for questions and answers.",
        "",
        "vLLM, with readonce's routes in it:",
        terminal.safe(f"  {variables} {shlex.join(launch['command'])}"),
        "readonce, started here or pointed there:",
        terminal.safe("  " + " ".join(f"{name}={value}" for name, value in launch["settings"].items())),
    )


def _memory_words(row: dict[str, Any]) -> str:
    where = f"{row['gpu']}, {row['memory_gib']} GiB of it seen by programs" if row["gpu"] else "this machine's CPU"
    share = "" if row["usable_gib"] is None else f" of {row['usable_gib']} GiB"
    return "\n".join(
        (
            f"{row['model']} on {where}; profile {row['profile']}",
            f"Weights  {row['weights_gib']} GiB, to compute in {row['step_gib']} GiB,"
            f" keys and values {row['pool_gib']} GiB{share}",
            f"Pool     {row['pool_tokens']:,} tokens: {row['num_blocks']:,} blocks of {row['block_size']},"
            f" {row['kv_bytes_per_token']:,} bytes a token",
            f"Context  at most {row['longest_context']:,} tokens at once; started with {row['max_model_len']:,},"
            f" reading {row['section_tokens']:,} at once",
        )
    )
