"""Decides every sentence of the page that is not about an answer (those are in `words`), in English and Chinese.

The language is the browser's. Chainlit's own words are kept but for the few that have to fit this product.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from app.words import Language

_WORDS: dict[str, tuple[str, str]] = {
    "all_documents": ("All documents", "全部文档"),
    "all_documents_hint": ("Search everything, read what fits the question", "在全部文档中查找，再阅读相关部分"),
    "ask_about": ("Ask about", "提问范围"),
    "document_hint": ("{pages} pages · {how}", "{pages} 页 · {how}"),
    "document_hint_one": ("1 page · {how}", "1 页 · {how}"),
    "text_hint": ("text file · {how}", "文本文件 · {how}"),
    "read_whole": ("read whole in one go", "一次通读全文"),
    "by_section": ("read by section", "按节阅读"),
    "read_by_section": ("read by section ({sections})", "按节阅读（共 {sections} 节）"),
    "opening": ("Opening the library", "正在打开文档库"),
    "starting": ("Starting the engine: {what}, {seconds} s", "正在启动引擎：{what}，{seconds} 秒"),
    "starting_plain": ("Starting the engine, {seconds} s", "正在启动引擎，{seconds} 秒"),
    "restarting": (
        "The engine has ended and is started again: {what}, {seconds} s",
        "引擎已结束，正在重新启动：{what}，{seconds} 秒",
    ),
    "restarting_plain": (
        "The engine has ended and is started again, {seconds} s",
        "引擎已结束，正在重新启动，{seconds} 秒",
    ),
    "samples": ("Adding the sample documents: {name}, {seconds} s", "正在加入示例文档：{name}，{seconds} 秒"),
    "ready": ("Ready · {model}", "就绪 · {model}"),
    "warming": ("Ready · {model} · reading {name} ahead", "就绪 · {model} · 正在预读 {name}"),
    "your_turn_comes": (
        "Your question is kept and asked as soon as the engine is ready.",
        "引擎就绪后会立即回答你的问题。",
    ),
    "looking": ("Looking for where to read …", "正在查找要阅读的位置……"),
    "reading_whole": ("Reading all of “{title}” …", "正在通读《{title}》……"),
    "reading_part": ("Reading “{title}”, {where} of {pages} …", "正在阅读《{title}》（共 {pages} 页）的{where}……"),
    "read_all": ("Read: “{title}”, the whole document{extent}", "已读：《{title}》全文{extent}"),
    "read_part": (
        "Read: “{title}”, {where} of {pages}{section}",
        "已读：《{title}》（共 {pages} 页）的{where}{section}",
    ),
    "extent": (" ({pages} pages)", "（{pages} 页）"),
    "stopped": ("Stopped. What had been written is kept.", "已停止，已写出的内容保留。"),
    "stopped_early": ("Stopped before the first word.", "在写出第一个字之前已停止。"),
    "read_it_whole": ("Read the whole document", "阅读全文"),
    "whole_cost": ("{extent}, {tokens} tokens: up to {time}", "{extent}，{tokens} 个词元：最多 {time}"),
    "whole_cost_unknown": (
        "{extent}, {tokens} tokens; how long that takes here is not known yet",
        "{extent}，{tokens} 个词元；尚不知道需要多久",
    ),
    "whole_command": ("To read the whole document ({cost}): {command}", "阅读全文（{cost}）：{command}"),
    "under_a_second": ("1 s", "1 秒"),
    "seconds": ("{count} s", "{count} 秒"),
    "minutes": ("{count} minutes", "{count} 分钟"),
    "answer_again": ("Answer again", "重新回答"),
    "answer_again_hint": (
        "Another answer to the same question; what was said after it goes.",
        "对同一问题重新回答，其后的内容会被移除。",
    ),
    "ask_next": ("Ask next", "接着问"),
    "unsupported": ("What the model wrote, without support in the text", "模型写的内容（文中没有依据）"),
    "waiting": ("Waiting for its turn", "排队中"),
    "stage_of": ("{word} {done} of {total}", "{word}（{done}/{total}）"),
    "in_short": ("{pages}, {sections}; {how}", "{pages}，{sections}；{how}"),
    "pages": ("{count} pages", "{count} 页"),
    "pages_one": ("1 page", "1 页"),
    "sections": ("{count} sections", "{count} 节"),
    "sections_one": ("1 section", "1 节"),
    "no_text": (
        "No text found in its {pages} (a scan?): it can't be asked yet.",
        "{pages}中没有文字（扫描件？）：暂时无法提问。",
    ),
    "already": ("already there", "已在库中"),
    "replaced": ("the earlier version was replaced", "已替换旧版本"),
    "warm": ("warm: the first question starts at once", "已预读：第一个问题即刻开始"),
    "warm_first": ("warm: its first section is read ahead", "已预读第一节"),
    "not_warm": ("not read ahead ({why})", "未能预读（{why}）"),
    "reading_ahead": ("ready to ask; the engine reads it ahead …", "可以提问了；引擎正在预读……"),
    "engine_comes": ("ready to ask; the engine is still starting", "可以提问了；引擎仍在启动"),
    "read_ahead_on_demand": ("ready to ask", "可以提问了"),
    "too_many_files": (
        "{name}: at most {most} files at a time; send it again by itself.",
        "{name}：一次最多 {most} 个文件，请单独再次上传。",
    ),
    "wrong_kind": (
        "{suffix} files are not read: PDF, Word, Excel, PowerPoint, EPUB, web page, mail, csv, text, Markdown and "
        "picture files (PNG, JPEG, TIFF) are.",
        "不支持 {suffix} 文件：支持 PDF、Word、Excel、PowerPoint、EPUB、网页、邮件、csv、文本、Markdown "
        "和图片（PNG、JPEG、TIFF）。",
    ),
    "too_large": (
        "{size} MB is more than the {most} MB that are taken: split it.",
        "文件 {size} MB 超过上限 {most} MB，请拆分。",
    ),
    "nothing_asked": (
        "Ask a question, or drop a file here: PDF, Word, Excel, PowerPoint, web page, text.",
        "请提问，或把文件拖到这里：PDF、Word、Excel、PowerPoint、网页、文本。",
    ),
    "unforeseen": (
        "Something went wrong that should not have. It is written down as {id} in {log}.",
        "出现了意外错误，已记录为 {id}，见 {log}。",
    ),
    "welcome": ("Welcome, {name}: choose a password", "{name}，欢迎：请设置密码"),
    "new_password": ("New password", "新密码"),
    "password_hint": ("At least {fewest} characters.", "至少 {fewest} 个字符。"),
    "set_password": ("Set the password", "设置密码"),
    "link_gone": (
        "This link was used or has run out; ask for a new one.",
        "此链接已使用或已过期，请索取新的链接。",
    ),
    "signed_out": (
        "You are no longer logged in: load this page again and log in.",
        "登录已失效：请刷新页面后重新登录。",
    ),
    "all_of_base": ("All of {kb}", "{kb}：全部文档"),
    "not_saved": (
        "This chat could not be kept: after a reload, what was just said may be missing. {why}",
        "此对话未能保存：刷新页面后，刚才的内容可能丢失。{why}",
    ),
    "not_brought_back": (
        "What was said here can be read, but the next answer does not build on it. {why}",
        "可以查看以前的内容，但下一个回答不会以此为基础。{why}",
    ),
    "page_of": ("{where} of {pages}", "{where}，共 {pages} 页"),
    "source_lost": ("This page can't be shown any more: reload and ask again.", "无法再显示此页：请刷新后重新提问。"),
    "source_removed": ("This document was removed.", "此文档已被移除。"),
    "source_replaced": (
        "This document was replaced by a newer “{name}” on {date}.",
        "此文档已于 {date} 被新版“{name}”取代。",
    ),
    "newer_same": ("The same sentence stands there: {where}", "同一句话仍在其中：{where}"),
    "newer_page": ("Open the new version: {where}", "打开新版：{where}"),
    "newer": ("Open the new version", "打开新版"),
    "by_ocr": (", read by OCR", "，文字识别所得"),
    "paragraph": ("paragraph {number}", "第 {number} 段"),
    "unmarked": (
        "The quote's words are on this page, but their place on it could not be told.",
        "引文在本页上，但无法确定其位置。",
    ),
    "previous": ("Previous page", "上一页"),
    "next": ("Next page", "下一页"),
    "prompt_tokens": ("Prompt", "提示"),
    "cached_tokens": ("Reused", "复用"),
    "output_tokens": ("Answer", "回答"),
    "first_token": ("First word", "第一个字"),
    "total": ("Whole answer", "整个回答"),
    "prefix": ("What was read, as the engine calls it", "所读内容在引擎中的名称"),
    "tokens": ("{count} tokens", "{count} 个词元"),
    "not_reported": ("not reported", "未报告"),
}

_STAGES: dict[str, tuple[str, str]] = {
    "read": ("Reading", "正在读取"),
    "recognise": ("Recognising page", "正在识别扫描页"),
    "split": ("Splitting", "正在切分"),
    "embed": ("Embedding", "正在嵌入"),
    "store": ("Storing", "正在保存"),
}

# Chainlit's own words that name its work, not ours; the rest is left as it is, in every language that it has.
_CHAINLIT: dict[str, tuple[str, str]] = {
    "chat.input.placeholder": ("Ask a question, or drop a PDF here", "提问，或把 PDF 拖到这里"),
    "chat.input.actions.stop": ("Stop", "停止"),
    "chat.input.actions.attachFiles": ("Add documents (PDF, Office, web, text)", "添加文档（PDF、Office、网页、文本）"),
    "chat.watermark": ("Every answer names its pages: open them and check.", "每个回答都注明页码：点开即可核对。"),
    "auth.login.title": ("Log in to readonce", "登录 readonce"),
    "auth.login.form.email.label": ("Name", "用户名"),
    "auth.login.form.email.placeholder": ("as in your invitation", "邀请中的名称"),
    "auth.login.form.email.required": ("Your name is missing.", "请输入用户名。"),
    "auth.login.form.password.required": ("Your password is missing.", "请输入密码。"),
    "auth.login.errors.credentialsSignin": (
        "Name and password don't fit, or too many logins failed: try again in half an hour.",
        "用户名或密码不正确，或失败次数过多：请半小时后再试。",
    ),
    "threadHistory.sidebar.empty": ("No chats yet", "还没有对话"),
    "threadHistory.thread.untitled": ("Unnamed chat", "未命名的对话"),
    "threadHistory.thread.actions.delete.description": (
        "The chat goes with all that was said in it; this can't be undone. Documents stay.",
        "将删除此对话及其全部内容，且无法撤销；文档会保留。",
    ),
    "threadHistory.thread.actions.rename.title": ("Rename the chat", "重命名对话"),
    "threadHistory.thread.actions.rename.description": ("A name to find it by", "便于查找的名称"),
    "threadHistory.thread.actions.rename.success": ("Chat renamed", "对话已重命名"),
    "threadHistory.thread.actions.rename.inProgress": ("Renaming the chat", "正在重命名对话"),
    "navigation.header.readme": ("How it works", "工作原理"),
}


def say(key: str, language: Language, **values: object) -> str:
    """The sentence `key` in `language`, with `values` put in."""
    return _WORDS[key][language == "zh"].format(**values)


def counted(key: str, count: int, language: Language) -> str:
    """ "1 page", "14 pages"."""
    return say(f"{key}_one" if count == 1 else key, language, count=count)


def stage_words(stage: str, done: int, total: int, language: Language) -> str:
    """ "Embedding 40 of 112": `stage` is the ingest's own word for what it does."""
    known = _STAGES.get(stage)
    word = known[language == "zh"] if known else stage.capitalize()
    return say("stage_of", language, word=word, done=done, total=total) if total > 1 else f"{word} …"


def language_of_browser(accept_language: str | None) -> Language:
    """Of an Accept-Language header: Chinese where it comes first, else English."""
    return "zh" if (accept_language or "").strip().lower().startswith("zh") else "en"


def put_into_chainlit(folder: Path) -> None:
    """Writes our words into Chainlit's translation files in `folder`; languages without ours keep theirs."""
    for path in sorted(folder.glob("*.json")):
        language = path.stem.split("-")[0]
        column = 1 if path.stem == "zh-CN" else 0
        words: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        before = json.dumps(words)
        for dotted, translations in _CHAINLIT.items():
            if language == "en" or column or dotted == "chat.watermark":
                _put(words, dotted.split("."), translations[column])
        if json.dumps(words) != before:
            path.write_text(json.dumps(words, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _put(words: dict[str, Any], keys: list[str], text: str) -> None:
    *parents, last = keys
    for key in parents:
        words = words.setdefault(key, {})
    words[last] = text
