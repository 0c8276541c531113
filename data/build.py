"""Decides which sample documents are built from which source, and says whether the built ones are up to date.

    python data/build.py            writes the PDFs beside this file
    python data/build.py --check    exit status 1 where a PDF is not what its source gives

Needs fpdf2 and the Noto CJK fonts (Debian and Ubuntu: fonts-noto-cjk); reading the samples needs neither.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from source import SourceError, read

FOLDER = Path(__file__).resolve().parent
BOOKLETS = ("harbour-handbook", "tea-garden-zh")


def main(arguments: list[str] | None = None) -> int:
    """Builds or checks every booklet; returns the exit status (0 fine, 1 out of date, 2 can't build)."""
    parser = argparse.ArgumentParser(description="Builds the sample PDFs from data/sources.")
    parser.add_argument("--check", action="store_true", help="only say whether the PDFs match their sources")
    is_check = parser.parse_args(arguments).check
    try:
        built = {name: _build(name) for name in BOOKLETS}
    except (SourceError, FileNotFoundError, ModuleNotFoundError) as error:
        print(f"Can't build: {_advice(error)}", file=sys.stderr)
        return 2
    stale = [name for name, pdf in built.items() if not _is_on_disk(name, pdf)]
    for name, pdf in built.items():
        if name in stale and not is_check:
            _target(name).write_bytes(pdf)
        state = "up to date" if name not in stale else "does not match its source" if is_check else "written"
        print(f"{_target(name).name}: {state} ({len(pdf):,} bytes)")
    return 1 if stale and is_check else 0


def _build(name: str) -> bytes:
    # fpdf2 is a tool of the house, not of its users: without it, --help still answers.
    from booklet import typeset

    return typeset(read(FOLDER / "sources" / f"{name}.md"))


def _target(name: str) -> Path:
    return FOLDER / f"{name}.pdf"


def _is_on_disk(name: str, pdf: bytes) -> bool:
    return _target(name).is_file() and _target(name).read_bytes() == pdf


def _advice(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"the package {error.name} is missing; install the development requirements."
    if isinstance(error, FileNotFoundError) and "noto" in str(error).lower():
        return f"{error} Install the Noto CJK fonts (package fonts-noto-cjk)."
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
