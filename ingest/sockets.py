"""Decides that a process opens no socket again, by the kernel: what a library in C asks for is refused too.

A seccomp filter [1] of five comparisons; it needs no rights, holds for threads and children, and can't be undone.

[1] https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET = 0, 4
_ALLOW, _FAIL_WITH = 0x7FFF0000, 0x00050000
_X86_64 = 0xC000003E
# By their numbers on x86-64: socket, connect, and the queue through which sockets can be opened as well.
_REFUSED_CALLS = (41, 42, 425)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def refuse_sockets() -> bool:
    """Says whether the kernel took the filter: it does on Linux on x86-64 from 3.5 on, not elsewhere."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    steps = [(_LOAD_WORD, 0, 0, _ARCHITECTURE_OFFSET), (_JUMP_IF_EQUAL, 0, len(_REFUSED_CALLS) + 1, _X86_64)]
    steps.append((_LOAD_WORD, 0, 0, _NUMBER_OFFSET))
    for at, call in enumerate(_REFUSED_CALLS):
        # To the last step, past the comparisons that are left and the one that allows.
        steps.append((_JUMP_IF_EQUAL, len(_REFUSED_CALLS) - at, 0, call))
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _FAIL_WITH | errno.EACCES)]
    packed = b"".join(struct.pack("=HBBI", *step) for step in steps)
    held = ctypes.create_string_buffer(packed, len(packed))
    program = _Program(len(steps), ctypes.cast(held, ctypes.c_void_p))
    kernel = ctypes.CDLL(None, use_errno=True)
    if kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(kernel.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0)
