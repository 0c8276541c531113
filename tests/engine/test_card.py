"""Which card there is, how much of it programs see, and which profile it gets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine import card
from engine.base import EngineError
from engine.card import Card, memory_of_machine_gib, named_card, read_card
from engine.profiles import PROFILES, choose, profile_for


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """What was read before is asked again."""
    read_card.cache_clear()
    yield
    read_card.cache_clear()


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A kernel module that is there, and a driver's program that runs the given Python; gives the module's folder."""

    def install(program: str) -> Path:
        module, programs = tmp_path / "module", tmp_path / "bin"
        module.mkdir()
        programs.mkdir()
        script = programs / "nvidia-smi"
        script.write_text(f"#!{sys.executable}\nimport sys\n{program}\n")
        script.chmod(0o755)
        monkeypatch.setattr(card, "_DRIVER", module)
        monkeypatch.setenv("PATH", str(programs))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        return module

    return install


@pytest.mark.parametrize(
    ("text", "seen_gib"),
    [("12GB", 11.9), ("24 gb", 23.6), ("24", 23.6), ("48GiB", 44.4), ("80GB", 79.2), ("141GB", 139.8), ("0", 0.0),
     ("H200", 139.8), ("RTX 4090", 23.6), ("NVIDIA H100 PCIe", 79.2), ("L40S", 44.4), ("A100 80GB", 79.2)],
)  # fmt: skip
def test_card_is_named_by_its_size_or_its_product(text: str, seen_gib: float) -> None:
    """What a program sees is less than what is printed on the card."""
    assert named_card(text).memory_gib == pytest.approx(seen_gib)


@pytest.mark.parametrize("text", ["", "big", "H20", "RTX 40900", "-24GB"])
def test_unknown_card_is_refused_with_what_is_known(text: str) -> None:
    """One that only resembles a known one too."""
    with pytest.raises(EngineError, match=r"give its size \(24GB\) or one of .*H200") as caught:
        named_card(text)
    assert caught.value.code == "gpu_unknown"


def test_larger_card_is_never_seen_as_smaller() -> None:
    """Also between the sizes that exist."""
    seen = [named_card(f"{gigabytes}GB").memory_gib for gigabytes in range(200)]
    assert seen == sorted(seen)


def test_driver_tells_the_first_card(driver: Callable[[str], Path]) -> None:
    """An H200 as its driver has it, less what the driver keeps: within half a per cent of what CUDA sees."""
    driver("print('NVIDIA H200, 143771\\nNVIDIA A10, 23028')")
    found = read_card()
    assert found is not None
    assert found.name == "NVIDIA H200"
    assert found.memory_gib == pytest.approx(139.8, rel=0.005)
    assert choose("auto", "cuda").name == "141gb"


def test_chosen_card_is_asked_for(driver: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM takes the first of the visible ones."""
    driver("print('A, 24564' if '--id=3' in sys.argv else 'B, 81559')")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert read_card() == Card("A", pytest.approx(23.6, rel=0.005))


@pytest.mark.parametrize("program", ["sys.exit(9)", "print('no devices')", "print('X, [N/A]')"])
def test_module_tells_the_product_where_the_driver_does_not_tell_the_size(
    driver: Callable[[str], Path], program: str
) -> None:
    """In a container without the driver's programs, say."""
    module = driver(program)
    assert read_card() is None
    read_card.cache_clear()
    (module / "gpus" / "0000:01:00.0").mkdir(parents=True)
    (module / "gpus" / "0000:01:00.0" / "information").write_text("Model: \t\t NVIDIA GeForce RTX 4090\nIRQ: 1\n")
    assert read_card() == Card("NVIDIA GeForce RTX 4090", 23.6)


def test_no_driver_is_no_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run then; a GPU that tells nothing gets the smallest profile."""
    monkeypatch.setattr(card, "_DRIVER", tmp_path / "none")
    assert read_card() is None
    assert choose("auto", "cuda").name == "12gb"
    assert choose("auto", "cpu").name == "cpu"


def test_memory_of_a_container_is_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit is written as a word."""
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(card, "_CGROUP_LIMIT", limit)
    whole = memory_of_machine_gib()
    limit.write_text("max\n")
    assert memory_of_machine_gib() == whole
    limit.write_text(f"{2**29}\n")
    assert memory_of_machine_gib() == 0.5


@pytest.mark.parametrize(
    ("seen_gib", "name"),
    [(0.0, "12gb"), (7.6, "12gb"), (11.7, "12gb"), (15.7, "12gb"), (22.0, "24gb"), (31.4, "24gb"), (44.4, "48gb"),
     (79.2, "80gb"), (94.5, "80gb"), (139.8, "141gb"), (178.0, "141gb")],
)  # fmt: skip
def test_card_gets_the_largest_profile_that_is_meant_for_it(seen_gib: float, name: str) -> None:
    """One of a little less than its class still counts."""
    assert profile_for(seen_gib).name == name


def test_unknown_profile_and_one_for_another_device_are_refused() -> None:
    """With what is known, and with what it is for."""
    with pytest.raises(EngineError, match=r"no profile '16gb'; give one of auto, cpu, 12gb, .*141gb") as caught:
        choose("16gb", "cuda")
    assert caught.value.code == "profile_unknown"
    with pytest.raises(EngineError, match="24gb is for a GPU and the engine runs on a CPU") as caught:
        choose("24gb", "cpu")
    assert caught.value.code == "profile_for_another_device"


def test_profiles_name_themselves_and_grow() -> None:
    """A larger card never gets less."""
    assert [(name, profile.step_ms) for name, profile in PROFILES.items()] == [
        ("cpu", 500), ("12gb", 60), ("24gb", 60), ("48gb", 60), ("80gb", 60), ("141gb", 45)
    ]  # fmt: skip
    assert all(name == profile.name for name, profile in PROFILES.items())
    sizes = [(p.memory_gib, p.max_model_len, p.section_tokens) for p in PROFILES.values() if p.device == "cuda"]
    assert [list(column) for column in zip(*sizes, strict=True)] == [
        sorted(column) for column in zip(*sizes, strict=True)
    ]
