"""Decides every sentence about an answer that the command line and the page share: receipts and abstentions.

English, or Chinese where the question is Chinese. A figure that the engine did not report is said to be so, never 0.
"""

from __future__ import annotations

from typing import Literal

from app.answer import Reading
from app.terms import has_cjk
from engine.base import ColdBecause, Receipt

Language = Literal["en", "zh"]

_WHY_EN: dict[ColdBecause, str] = {
    "first_use": "first use of these pages",
    "evicted": "other documents had taken its place in the cache",
    "freed": "it had been let go",
    "restarted": "the engine was restarted",
    "changed": "the document was changed",
    "unknown": "the engine does not say why",
}
_WHY_ZH: dict[ColdBecause, str] = {
    "first_use": "这些页面第一次被读",
    "evicted": "缓存已被其他文档占用",
    "freed": "此前已被释放",
    "restarted": "引擎重新启动过",
    "changed": "文档已更改",
    "unknown": "引擎没有说明原因",
}


# Of an answer without support in the text, so much is shown.
UNSUPPORTED_CHARS = 200
# A search that takes longer is told of beside the first word's time.
NOTICED_MS = 950.0


def language_of(question: str) -> Language:
    return "zh" if has_cjk(question) else "en"


def receipt_words(receipt: Receipt, language: Language = "en", search_ms: float = 0.0) -> str:
    """ "1,984 of 2,031 prompt tokens reused, first word after 0.2 s; cold it took 5.5 s"

    Args:
        search_ms: What went before; told where a person noticed it.
    """
    why = _WHY_ZH if language == "zh" else _WHY_EN
    told = [_reused(receipt, language), _first_word(receipt, language)]
    if search_ms >= NOTICED_MS:
        searched = seconds(search_ms)
        told.append(f"在此之前检索用了 {searched}" if language == "zh" else f"behind a search of {searched}")
    line = ("，" if language == "zh" else ", ").join(told)
    if receipt.cold_because is not None:
        return line + (
            "（冷：" + why[receipt.cold_because] + "）" if language == "zh" else f" (cold: {why[receipt.cold_because]})"
        )
    if receipt.cold_first_token_ms is not None and receipt.first_token_ms is not None:
        cold = seconds(receipt.cold_first_token_ms)
        return line + (f"；冷读时用了 {cold}" if language == "zh" else f"; cold it took {cold}")
    return line


def _reused(receipt: Receipt, language: Language) -> str:
    prompt = f"{receipt.prompt_tokens:,}"
    if language == "zh":
        if receipt.cached_tokens is None:
            return f"提示共 {prompt} 个词元，复用数未报告"
        return f"{prompt} 个提示词元中复用了 {receipt.cached_tokens:,} 个"
    if receipt.cached_tokens is None:
        return f"{prompt} prompt tokens, reuse not reported"
    return f"{receipt.cached_tokens:,} of {prompt} prompt tokens reused"


def _first_word(receipt: Receipt, language: Language) -> str:
    if receipt.first_token_ms is None:
        return "没有输出" if language == "zh" else "no word came"
    after = seconds(receipt.first_token_ms)
    return f"{after} 后出现第一个字" if language == "zh" else f"first word after {after}"


def seconds(milliseconds: float) -> str:
    """0.02 s, 0.2 s, 5.5 s, 12 s: as many digits as a person wants."""
    value = milliseconds / 1000
    return f"{value:.2f} s" if value < 0.095 else f"{value:.1f} s" if value < 9.95 else f"{value:.0f} s"


def not_in_reading(reading: Reading, num_searched: int, language: Language, *, asks: bool = True) -> str:
    """What an abstention says after the model has read and found nothing; `num_searched` documents could have been.

    Args:
        asks: Whether somebody is there who could have the rest read too.
    """
    if reading.whole and num_searched > 1:
        if language == "zh":
            whole = f"已读全部 {reading.num_pages} 页"
            return f"在检索的 {num_searched} 个文档中最接近的《{reading.title}》里没有（{whole}）。"
        pages = _all_pages(reading.num_pages)
        return f"Not in “{reading.title}”, the nearest of {num_searched} documents ({pages} read)."
    if reading.whole:
        if language == "zh":
            return f"此文档中没有（已读全部 {reading.num_pages} 页）。"
        return f"Not in this document ({_all_pages(reading.num_pages)} read)."
    title, one_page = reading.title, reading.num_pages == 1
    where = page_range(reading.first_page, reading.last_page, language)
    if language == "zh":
        read = f"读了《{title}》的一部分" if one_page else f"读了《{title}》共 {reading.num_pages} 页中的{where}"
        return f"在检索到的段落中没有找到（{read}）" + ("：要读全文吗？" if asks else "。")
    part = f"a part of “{title}”" if one_page else f"{where} of {reading.num_pages} of “{title}”"
    was = "was" if reading.first_page == reading.last_page else "were"
    return f"Not in the passages searched ({part} {was} read)" + (": read the whole document?" if asks else ".")


def nothing_relevant(num_documents: int, language: Language) -> str:
    """What an abstention says where the search found nothing to read."""
    if language == "zh":
        return f"在检索的 {num_documents} 个文档中没有找到相关段落。"
    documents = f"{num_documents} document{'s' * (num_documents != 1)}"
    return f"Not in the passages searched: nothing in {documents} matches the question."


def beginning(answer: str) -> str:
    """What is shown of an answer that nothing supports: a model that repeats itself fills the whole of it."""
    return answer if len(answer) <= UNSUPPORTED_CHARS else answer[:UNSUPPORTED_CHARS].rstrip() + "…"


def unsupported(words: str, abstention: str, language: Language) -> str:
    """An answer of which no sentence stands in what was read: the abstention first, the model's words as its own."""
    if language == "zh":
        return f"{abstention}文中没有依据的回答：“{words}”"
    return f"{abstention} Without support in the text: “{words}”"


def page_range(first: int, last: int, language: Language = "en") -> str:
    if language == "zh":
        return f"第 {first} 页" if first == last else f"第 {first} 至 {last} 页"
    return f"page {first}" if first == last else f"pages {first} to {last}"


def page_words(page: int, label: str | None, num_pages: int | None = None) -> str:
    """ "p. 12", or "p. 10, sheet 20 of 240" where the printed label differs from the sheet."""
    if label is None or label == str(page):
        return f"p. {page}"
    return f"p. {label}, sheet {page}" + (f" of {num_pages}" if num_pages else "")


def _all_pages(count: int) -> str:
    return "the whole text was" if count == 1 else f"all {count} pages were"
