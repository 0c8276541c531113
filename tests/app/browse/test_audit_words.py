"""What the audit log keeps as stable words is said to people in theirs."""

from __future__ import annotations

import pytest

from app.browse.audit_words import deed


@pytest.mark.parametrize(
    ("noted", "en", "zh"),
    [
        ("document_added", "added a document", "添加文档"),
        ("document_replaced", "replaced a document", "替换文档"),
        ("document_deleted", "deleted a document", "删除文档"),
    ],
)
def test_what_was_done_to_a_document_is_said_in_words(noted: str, en: str, zh: str) -> None:
    """As all else that is noted; only a word that nobody knows stands as it is kept."""
    assert (deed(noted, "en"), deed(noted, "zh")) == (en, zh)
    assert deed("unknown_deed", "zh") == "unknown_deed"
