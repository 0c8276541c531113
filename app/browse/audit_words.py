"""Decides how a line of the audit log is said to a person; the log itself keeps stable words."""

from __future__ import annotations

from app.people.rights import OF_THIS_MACHINE
from app.words import Language

_DEEDS: dict[str, tuple[str, str]] = {
    "login": ("logged in", "登录"),
    "login_refused": ("login refused", "登录被拒"),
    "login_limited": ("too many logins", "登录次数过多"),
    "logout": ("logged out", "退出登录"),
    "password_set": ("set a password", "设置密码"),
    "person_added": ("added a person", "添加人员"),
    "person_admin": ("changed an admin", "更改管理员"),
    "person_disabled": ("disabled a person", "停用人员"),
    "person_reset": ("reset a login", "重置登录"),
    "group_joined": ("added to a group", "加入群组"),
    "group_left": ("taken from a group", "移出群组"),
    "kb_created": ("made a knowledge base", "新建知识库"),
    "kb_shared": ("shared", "共享"),
    "kb_unshared": ("shared no longer", "取消共享"),
    "key_made": ("made a key", "创建密钥"),
    "key_revoked": ("revoked a key", "撤销密钥"),
    "document_added": ("added a document", "添加文档"),
    "document_replaced": ("replaced a document", "替换文档"),
    "document_deleted": ("deleted a document", "删除文档"),
}
# What a detail begins with; a name stands behind it.
_DETAILED = frozenset({"kb_created", "kb_shared", "key_made", "person_added", "person_admin"})
_DETAILS: dict[str, str] = {
    "owner": "所有者",
    "contributor": "贡献者",
    "reader": "读者",
    "name": "名称",
    "by": "来自",
    "first": "首位",
    "admin": "管理员",
    "yes": "是",
    "no": "否",
}
_OF_THIS_MACHINE = (OF_THIS_MACHINE.name, "本机所有者")


def deed(what: str, language: Language) -> str:
    """ "login refused" of `login_refused`; a word that is not known here stays as it is."""
    return _DEEDS[what][language == "zh"] if what in _DEEDS else what


def detail(what: str, said: str, language: Language) -> str:
    """What more the log says of it: "reader ben"."""
    first, between, rest = said.partition(" ")
    translated = what in _DETAILED and language == "zh"
    return f"{_DETAILS.get(first, first)}{between}{rest}" if translated else said


def actor(who: str, language: Language) -> str:
    """A person's name; who sits at the machine has none, and is called so."""
    return _OF_THIS_MACHINE[language == "zh"] if who == OF_THIS_MACHINE.name else who
