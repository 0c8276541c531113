"""Decides how a file is put in its place: whole and on the disk, in one step, or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from app.problem import Problem


def check_place(out: Path) -> None:
    """Says whether a file can stand at `out`; writes nothing.

    Raises:
        Problem: `bad_output`.
    """
    if out.is_dir():
        raise Problem("bad_output", f"{out} is a folder: name a file in it.", usage=True)
    if not out.absolute().parent.is_dir():
        raise Problem("bad_output", f"The folder {out.absolute().parent} isn't there: make it first.", usage=True)


def write_whole(out: Path, data: bytes) -> None:
    """Puts `data` in place of what `out` held, in one step, on the disk when this returns."""
    handle, draft = tempfile.mkstemp(prefix=f".{out.name[:100]}.", dir=out.absolute().parent)
    try:
        with open(handle, "wb") as target:
            target.write(data)
            target.flush()
            os.fsync(target.fileno())
        os.chmod(draft, _rights(out))
        os.replace(draft, out)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _rights(out: Path) -> int:
    """Those of the file that is replaced, else those that a new file gets; a draft is its maker's alone."""
    if out.exists():
        return out.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
