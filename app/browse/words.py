"""Decides every sentence of the documents' pages, in English and Chinese; the language is the browser's."""

from __future__ import annotations

from app.words import Language

_WORDS: dict[str, tuple[str, str]] = {
    # everywhere
    "chat": ("Chat", "对话"),
    "documents": ("Documents", "文档"),
    "cache": ("Cache", "缓存"),
    "admin": ("Administration", "管理"),
    "skip": ("Skip to the content", "跳到内容"),
    "you_are": ("Logged in as {name}", "已登录：{name}"),
    "back": ("Back", "返回"),
    "yes": ("yes", "是"),
    "no": ("no", "否"),
    "nothing_here": ("There is nothing here.", "这里没有内容。"),
    "went_wrong": ("That did not work", "未能完成"),
    "foreign_form": (
        "This form was not sent by this page: open it here and send it again.",
        "此表单并非由本页发送：请在此处重新打开并提交。",
    ),
    # lists
    "search": ("Search", "搜索"),
    "search_all": ("Search in all documents", "在全部文档中搜索"),
    "search_base": ("Search in “{kb}”", "在“{kb}”中搜索"),
    "search_one": ("Search in this document", "在此文档中搜索"),
    "found_none": ("Nothing was found for “{question}”.", "没有找到与“{question}”相关的内容。"),
    "found": ("{count} places for “{question}”", "“{question}”的 {count} 处结果"),
    "found_one": ("1 place for “{question}”", "“{question}”的 1 处结果"),
    "no_documents": ("No documents yet.", "还没有文档。"),
    "no_bases": (
        "There is nothing that you may read yet: add a file below, or ask somebody to share a knowledge base.",
        "还没有你可以阅读的内容：请在下方添加文件，或请他人共享知识库。",
    ),
    "all_of": ("All {count} documents", "全部 {count} 个文档"),
    "document": ("Document", "文档"),
    "pages": ("Pages", "页数"),
    "words": ("Words", "字数"),
    "coverage": ("Text", "文字"),
    "tokens": ("Tokens", "词元"),
    "state": ("State", "状态"),
    "document_count": ("{count} documents", "{count} 个文档"),
    "document_count_one": ("1 document", "1 个文档"),
    "role_reader": ("you may read", "可阅读"),
    "role_contributor": ("you may read, add and delete", "可阅读、添加和删除"),
    "role_owner": ("yours to manage", "由你管理"),
    "private": ("private", "私有"),
    "shared": ("shared", "已共享"),
    "public": ("public", "公开"),
    "reader": ("reader", "读者"),
    "contributor": ("contributor", "贡献者"),
    "owner": ("owner", "所有者"),
    # coverage
    "covered_all": ("all text", "全部为文字"),
    "covered_text": ("{count} text", "文字 {count}"),
    "covered_ocr": ("{count} by OCR", "识别 {count}"),
    "covered_empty": ("{count} without text", "无文字 {count}"),
    "covered_doubtful": ("{count} doubtful", "存疑 {count}"),
    # states
    "is_no_text": ("no text found (a scan?): it can't be asked", "没有文字（扫描件？）：无法提问"),
    "is_embedding": ("embedding {percent} %", "嵌入 {percent}%"),
    "is_warm": ("warm", "已预读"),
    "is_partly": ("{percent} % warm", "已预读 {percent}%"),
    "is_warming": ("warming, {percent} %", "正在预读 {percent}%"),
    "is_cold": ("cold", "未预读"),
    "is_too_large": ("does not fit at once, {percent} % warm", "无法整体放入，已预读 {percent}%"),
    "is_unknown": ("not reported", "未报告"),
    "is_pinned": ("kept warm", "保持预读"),
    # adding
    "add_files": ("Add files", "添加文件"),
    "add_to": ("Add files to “{kb}”", "添加文件到“{kb}”"),
    "add_to_own": ("Add files of your own", "添加自己的文件"),
    "add_hint": (
        "Drop files here or choose them. PDF, Word, Excel, PowerPoint, EPUB, web page, mail, csv, text, Markdown and "
        "pictures, up to {most} MB each.",
        "把文件拖到这里或选择文件：PDF、Word、Excel、PowerPoint、EPUB、网页、邮件、csv、文本、Markdown 和图片，"
        "每个不超过 {most} MB。",
    ),
    "add_own_hint": (
        "They go into a knowledge base of your own, which nobody else sees until you share it.",
        "文件会放入你自己的知识库，在你共享之前其他人都看不到。",
    ),
    "choose_files": ("Choose files", "选择文件"),
    "send": ("Add", "添加"),
    "arriving": ("Just added", "最近加入"),
    "no_file": ("No file was chosen: choose one and send it again.", "没有选择文件：请选择后再提交。"),
    "too_large_together": (
        "What was sent is larger than {most} MB: split it, or send the files one by one.",
        "发送的内容超过 {most} MB：请拆分，或逐个发送。",
    ),
    "stage_received": ("received", "已接收"),
    "stage_text": ("text", "文字"),
    "stage_passages": ("passages", "段落"),
    "stage_askable": ("can be asked", "可提问"),
    "stage_embedded": ("embedded", "已嵌入"),
    "stage_warm": ("warm", "已预读"),
    "done": ("done", "完成"),
    "under_way": ("under way", "进行中"),
    "to_come": ("to come", "待进行"),
    "sending": ("Sending", "正在发送"),
    "lost": (
        "The connection was lost before all of it had arrived: send it again.",
        "连接在传完之前中断：请重新发送。",
    ),
    # one document
    "ask_about_it": ("Ask about it", "就此提问"),
    "download": ("Download the file", "下载原文件"),
    "delete": ("Delete", "删除"),
    "really_delete": ("Delete “{title}”?", "删除“{title}”？"),
    "delete_means": (
        "It is gone from “{kb}” at once: nothing finds, cites or shows it there any more. This can't be undone.",
        "它会立即从“{kb}”中消失：不再能被找到、引用或显示。此操作无法撤销。",
    ),
    "keep_it": ("Keep it", "保留"),
    "deleted": ("The document was deleted.", "文档已删除。"),
    "replace": ("Replace", "替换"),
    "replace_with": ("Replace with a newer file", "用新文件替换"),
    "replace_hint": (
        "The new version takes its place at once. It has to be a {suffix} file.",
        "新版本会立即取代旧版本，须为 {suffix} 文件。",
    ),
    "replace_kind": (
        "“{name}” can be replaced by a {suffix} file only; add the other one as a document of its own.",
        "“{name}”只能用 {suffix} 文件替换；请把另一个文件作为新文档添加。",
    ),
    "differs": (
        "It differs from page {page} on; of {all} tokens {kept} stay read.",
        "从第 {page} 页起不同；{all} 个词元中有 {kept} 个无需重读。",
    ),
    "same_words": (
        "Its words are the same; of {all} tokens {kept} stay read.",
        "文字没有变化；{all} 个词元中有 {kept} 个无需重读。",
    ),
    "added_on": ("added {day}", "添加于 {day}"),
    "guide": ("Source guide", "文档导读"),
    "guide_by": (
        "Written by the model from what it has read: check it on the pages.",
        "由模型根据所读内容写成，请在页面上核对。",
    ),
    "guide_first": (
        "It tells of the first of {sections} sections.",
        "内容取自共 {sections} 节中的第一节。",
    ),
    "guide_coming": ("It is being written.", "正在撰写。"),
    "guide_later": (
        "It is written once the document is warm.",
        "文档预读完成后撰写。",
    ),
    "guide_failed": ("None could be written for this document.", "未能为此文档撰写导读。"),
    "questions": ("Questions to ask", "可以提出的问题"),
    "notes": ("Notes", "说明"),
    "sheets": ("Pages", "页面"),
    "paragraph_text": ("Text", "文字"),
    "page_text": ("The text of this page", "本页文字"),
    "no_page_text": ("No text on this page.", "本页没有文字。"),
    "by_ocr": ("read by OCR", "识别所得"),
    "empty": ("no text", "无文字"),
    "doubtful": ("doubtful", "存疑"),
    "previous": ("Previous page", "上一页"),
    "next": ("Next page", "下一页"),
    "marked_here": ("marked here", "标记处"),
    "page_n": ("p. {label}", "第 {label} 页"),
    "page_alt": ("Page {where} of “{title}”, drawn", "“{title}”{where}的图像"),
    # sharing
    "sharing": ("Sharing", "共享"),
    "sharing_of": ("Who may use “{kb}”", "谁可以使用“{kb}”"),
    "people": ("People", "人员"),
    "groups": ("Groups", "群组"),
    "nobody": ("Nobody yet.", "暂无。"),
    "name": ("Name", "名称"),
    "role": ("Role", "角色"),
    "person": ("Person", "人员"),
    "group": ("Group", "群组"),
    "give": ("Give", "授予"),
    "take_away": ("Take away", "撤销"),
    "take_away_from": ("Take away from {name}", "撤销 {name}"),
    "everybody": ("Everybody", "所有人"),
    "is_public_now": ("Everybody with an account may read it.", "所有有账户的人都可以阅读。"),
    "not_public_now": ("Only those named here may read it.", "只有此处列出的人可以阅读。"),
    "make_public": ("Let everybody read it", "让所有人阅读"),
    "make_private": ("Let only those named here read it", "只让列出的人阅读"),
    "roles_mean": (
        "Readers ask and read. Contributors add, replace and delete as well. Owners decide who may.",
        "读者可以提问和阅读；贡献者还可以添加、替换和删除；所有者决定谁可以使用。",
    ),
    "new_base": ("New knowledge base", "新建知识库"),
    "make": ("Make it", "新建"),
    "bad_base": (
        "“{name}” can't be its name: use letters, digits and blanks, or another name.",
        "不能命名为“{name}”：请使用字母、数字和空格，或换一个名称。",
    ),
    # cache
    "pool": ("Room", "容量"),
    "pool_words": (
        "{resident} of {pool} tokens are taken, {pinned} of them kept",
        "共 {pool} 个词元，已用 {resident}，其中固定 {pinned}",
    ),
    "pool_unknown": (
        "room for {pool} tokens; the engine does not tell what it holds",
        "可容纳 {pool} 个词元；引擎不报告占用情况",
    ),
    "engine_silent": (
        "The engine is not running yet, or does not tell what it holds.",
        "引擎尚未运行，或不报告其内容。",
    ),
    "your_documents": ("Your documents", "你的文档"),
    "reading_it": ("Reading it would", "若现在读取"),
    "pushes_nothing": ("push out nothing", "不会挤出任何内容"),
    "pushes": ("push out {names}", "会挤出 {names}"),
    "pushes_tokens": ("push out {tokens} tokens of what was used longest ago", "会挤出最久未用的 {tokens} 个词元"),
    "is_there": ("cost nothing: it is there", "无需代价：已在缓存中"),
    "never_fits": ("not be possible at once: it is larger than the room", "无法一次完成：超过容量"),
    "of_others": ("a document of others", "他人的文档"),
    "and_more": ("{names} and {count} more", "{names} 等另外 {count} 个"),
    "asked": ("Asked", "提问次数"),
    "pin": ("Keep warm", "保持预读"),
    "free": ("Let go", "释放"),
    "pinning": ("It is read and kept warm.", "将读取并保持预读。"),
    "freed": ("It was let go; its next question reads it again.", "已释放，下次提问时会重新读取。"),
    "cannot_hold": (
        "This engine keeps nothing by name, so nothing can be kept or let go.",
        "此引擎不按名称保留内容，无法固定或释放。",
    ),
    # administration
    "hit_rate": ("Taken from the cache", "缓存命中"),
    "of_prompt_tokens": ("{percent} % of all prompt tokens", "全部提示词元的 {percent}%"),
    "nothing_asked": ("nothing asked yet", "尚无提问"),
    "first_word": ("First word", "第一个字"),
    "quantiles": (
        "half within {p50}, 95 of 100 within {p95} ({count} questions)",
        "半数在 {p50} 内，95% 在 {p95} 内（{count} 个问题）",
    ),
    "waiting": ("Waiting", "等待中"),
    "waiting_words": (
        "{read} for a read, {room} for room; {live} answered now",
        "等待读取 {read}，等待空间 {room}；正在回答 {live}",
    ),
    "here_now": ("On the page now", "当前在线"),
    "slow_questions": ("Slow questions", "较慢的问题"),
    "slow_hint": (
        "The slowest of the last {count}, without their words; they are forgotten when the page is started again.",
        "最近 {count} 个中最慢的，不含问题内容；重新启动后不再保留。",
    ),
    "when": ("When (UTC)", "时间（UTC）"),
    "who": ("Who", "谁"),
    "what": ("What", "操作"),
    "about": ("About", "对象"),
    "detail": ("Detail", "详情"),
    "base": ("Knowledge base", "知识库"),
    "total": ("Whole answer", "整个回答"),
    "reused": ("Reused", "复用"),
    "why_cold": ("Why cold", "未命中原因"),
    "audit": ("Audit log", "审计日志"),
    "audit_hint": (
        "The last {count} lines; the command readonce audit shows more.",
        "最近 {count} 行；命令 readonce audit 显示更多。",
    ),
    "cold_first_use": ("first use", "首次使用"),
    "cold_evicted": ("pushed out", "被挤出"),
    "cold_restarted": ("restarted", "引擎重启"),
    "cold_changed": ("changed", "文档已更改"),
    "cold_unknown": ("not known", "未知"),
}


def say(key: str, language: Language, **values: object) -> str:
    """The sentence `key` in `language`, with `values` put in."""
    return _WORDS[key][language == "zh"].format(**values)


def known(key: str) -> bool:
    return key in _WORDS


def counted(key: str, count: int, language: Language, **values: object) -> str:
    """ "1 document", "14 documents"."""
    return say(f"{key}_one" if count == 1 else key, language, count=f"{count:,}", **values)
