"""Settings: read once, in a known order, and what is unknown or bad is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.problem import Problem
from app.settings import Settings


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and no READONCE_ variable from outside."""
    import os

    for name in list(os.environ):
        if name.startswith("READONCE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("READONCE_HOME", str(tmp_path))
    return tmp_path


def refusal() -> Problem:
    with pytest.raises(Problem) as caught:
        Settings.load()
    assert "\n" not in caught.value.message
    assert caught.value.usage
    return caught.value


def test_flag_comes_before_variable_before_file_before_default(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four places, one order."""
    assert Settings.load().answer_tokens == 256
    (home / "readonce.toml").write_text("answer_tokens = 11\n")
    assert Settings.load().answer_tokens == 11
    monkeypatch.setenv("READONCE_ANSWER_TOKENS", "12")
    assert Settings.load().answer_tokens == 12
    assert Settings.load(answer_tokens=13).answer_tokens == 13
    assert Settings.load(answer_tokens=None).answer_tokens == 12


def test_unknown_variable_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt variable would otherwise be ignored for ever."""
    monkeypatch.setenv("READONCE_SECTION_TOKEN", "9")
    problem = refusal()
    assert problem.code == "unknown_setting"
    assert "READONCE_SECTION_TOKEN" in problem.message
    assert "section_tokens" in problem.message


def test_unknown_key_of_the_file_is_refused_by_name(home: Path) -> None:
    """As with variables."""
    (home / "readonce.toml").write_text("modell = 'x'\n")
    problem = refusal()
    assert problem.code == "unknown_setting"
    assert "'modell'" in problem.message


@pytest.mark.parametrize("text", ["model = ", "[engine]\nport = 1\n", "home = '/elsewhere'\n", "port = 'many'\n"])
def test_bad_file_is_refused_in_one_sentence(home: Path, text: str) -> None:
    """Broken TOML, a table, a key that would move the file itself, a value of the wrong kind."""
    (home / "readonce.toml").write_text(text)
    assert refusal().code in ("bad_setting", "unknown_setting")


def test_bad_value_names_variable_value_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says what to mend."""
    monkeypatch.setenv("READONCE_PORT", "70000")
    problem = refusal()
    assert problem.code == "bad_setting"
    for part in ("port", "READONCE_PORT", "70000", "65535"):
        assert part in problem.message


def test_settings_are_frozen() -> None:
    """Read once; nobody changes them later."""
    with pytest.raises(ValidationError):
        Settings.load().port = 1  # type: ignore[misc]


def test_model_and_section_budget_follow_the_device() -> None:
    """A GPU takes the large model and long sections, a CPU the small ones; what is set explicitly wins."""
    cpu, gpu = Settings.load(device="cpu"), Settings.load(profile="48gb")
    assert (cpu.model_name, cpu.section_budget) == ("qwen2.5-coder-0.5b", 2_000)
    assert (gpu.model_name, gpu.section_budget) == ("qwen3-4b", 32_000)
    assert Settings.load(device="cpu", model="smollm2-135m").model_name == "smollm2-135m"


@pytest.mark.parametrize(
    ("profile", "model_len", "section"),
    [
        ("cpu", 8_192, 2_000),
        ("12gb", 12_288, 6_000),
        ("24gb", 32_768, 16_000),
        ("48gb", 65_536, 32_000),
        ("80gb", 131_072, 48_000),
        ("141gb", 262_144, 64_000),
    ],
)
def test_profile_decides_how_much_is_read_at_once(profile: str, model_len: int, section: int) -> None:
    """Without a word about the device: a profile names one."""
    settings = Settings.load(profile=profile)
    assert (settings.model_len, settings.section_budget) == (model_len, section)
    assert settings.engine.profile == profile
    assert settings.engine.max_model_len is None


def test_known_model_that_reads_less_than_the_profile_lowers_it() -> None:
    """Sections that the model can't read would be refused at the first question."""
    settings = Settings.load(profile="141gb", model="qwen2.5-coder-0.5b")
    assert settings.model_len == 32_768
    assert settings.section_budget == 32_768 - settings.reserve_tokens


def test_engine_settings_reach_the_engine_by_its_own_names() -> None:
    """What is not set stays the profile's to decide."""
    given = Settings.load(profile="24gb", kv_dtype="fp8", quantization="fp8", kv_offloading_gib=64).engine
    assert (given.kv_cache_dtype, given.quantization, given.kv_offloading_gib) == ("fp8", "fp8", 64)
    bare = Settings.load(profile="24gb", kv_dtype="bf16").engine
    assert (bare.kv_cache_dtype, bare.quantization, bare.kv_offloading_gib) == ("bfloat16", None, None)


def test_profile_and_device_that_exclude_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of the two is meant only the person knows."""
    monkeypatch.setenv("READONCE_DEVICE", "cpu")
    monkeypatch.setenv("READONCE_PROFILE", "24gb")
    problem = refusal()
    assert problem.code == "bad_setting"
    assert "24gb" in problem.message
    assert "cpu" in problem.message


@pytest.mark.parametrize("max_sections", [1, 2, 3])
@pytest.mark.parametrize("model_len", [2_048, 8_192, 32_768])
def test_sections_and_reserve_always_fit_the_model(model_len: int, max_sections: int) -> None:
    """Sections, the room behind them and the answer together never exceed the model."""
    settings = Settings.load(device="gpu", max_model_len=model_len, max_sections=max_sections)
    assert settings.section_budget * max_sections + settings.reserve_tokens <= model_len


def test_home_that_is_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence speaks of the home, not of the settings file that it can't hold."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("READONCE_HOME", str(tmp_path / "file"))
    problem = refusal()
    assert str(tmp_path / "file") in problem.message
    assert "readonce.toml" not in problem.message


def test_tilde_is_the_users_home_where_no_shell_has_expanded_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from an environment file or the TOML file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("READONCE_HOME", "~/here")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "readonce.toml").write_text("cache = '~/models'\n")
    assert (Settings.load().home, Settings.load().cache) == (tmp_path / "here", tmp_path / "models")


@pytest.mark.parametrize(("name", "value"), [("ANSWER_TOKENS", "9000"), ("MAX_MODEL_LEN", "300")])
def test_answer_that_leaves_nothing_to_read_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Both settings are named: which one is wrong only the person knows."""
    monkeypatch.setenv(f"READONCE_{name}", value)
    monkeypatch.setenv("READONCE_DEVICE", "cpu")
    problem = refusal()
    assert problem.code == "bad_setting"
    assert "max_model_len" in problem.message
    assert "answer_tokens" in problem.message


def test_variables_of_the_engines_own_side_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that is started inherits them; it refuses what it does not know itself."""
    monkeypatch.setenv("READONCE_PLUGIN_PIN_SHARE", "0.25")
    assert Settings.load().offline is False


def test_token_of_an_engine_elsewhere_reaches_the_engine_and_nothing_that_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither the settings nor what the engine is told are printed with it."""
    monkeypatch.setenv("READONCE_ENGINE_TOKEN", "s3cret")
    settings = Settings.load()
    assert settings.engine.token == "s3cret"
    assert "s3cret" not in f"{settings!r} {settings} {settings.engine!r}"
    monkeypatch.delenv("READONCE_ENGINE_TOKEN")
    assert Settings.load().engine.token is None
