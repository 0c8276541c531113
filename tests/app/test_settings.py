"""Settings: read once, in a known order, and what is unknown or bad is refused in one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

import app
from app.problem import Problem
from app.setting_table import markdown, rows
from app.setting_words import takes
from app.settings import NEVER_SHOWN, Settings


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


def test_unknown_variable_is_told_of_with_what_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """No error, since another version may share the environment; and no silence, since it may be misspelt."""
    monkeypatch.setenv("READONCE_SECTION_TOKEN", "9")
    monkeypatch.setenv("readonce_xyzzy", "9")
    monkeypatch.setenv("READONCE_TEST_POSTGRESQL", "9")
    assert Settings.load().section_tokens == 0
    assert set(Settings.unknown_variables()) == {
        "The variable READONCE_SECTION_TOKEN is not a setting and does nothing; did you mean READONCE_SECTION_TOKENS?",
        "The variable readonce_xyzzy is not a setting and does nothing; `readonce settings` lists all.",
    }


def test_unknown_key_of_the_file_is_refused_by_name(home: Path) -> None:
    """The file is nobody else's: what is unknown there is a mistake."""
    (home / "readonce.toml").write_text("modell = 'x'\n")
    problem = refusal()
    assert problem.code == "unknown_setting"
    said = "has the key 'modell', which is not a setting; did you mean model?"
    assert problem.message == f"{home / 'readonce.toml'} {said}"


@pytest.mark.parametrize("text", ["model = ", "[engine]\nport = 1\n", "home = '/elsewhere'\n", "port = 'many'\n"])
def test_bad_file_is_refused_in_one_sentence(home: Path, text: str) -> None:
    """Broken TOML, a table, a key that would move the file itself, a value of the wrong kind."""
    (home / "readonce.toml").write_text(text)
    assert refusal().code in ("bad_setting", "unknown_setting")


@pytest.mark.parametrize(
    ("name", "value", "takes"),
    [
        ("PORT", "70000", "a whole number from 1 to 65535"),
        ("PORT", "many", "a whole number from 1 to 65535"),
        ("ANSWER_TOKENS", "1.5", "a whole number, 1 or more"),
        ("KEEP_ALIVE_S", "nan", "a number, 0 or more"),
        ("ENGINE_START_S", "0", "a number above 0"),
        ("OCR", "maybe", "true or false"),
        ("DEVICE", "tpu", "auto, cpu or gpu"),
        ("OTLP_ENDPOINT", "foo", "an address such as http://127.0.0.1:8000"),
        ("OTLP_ENDPOINT", "grpc://collector:4317", "an address such as http://127.0.0.1:8000"),
        ("ENGINE_URL", "http://", "an address such as http://127.0.0.1:8000"),
        ("URL", "http://page:many", "an address such as http://127.0.0.1:8000"),
    ],
)
def test_bad_value_is_told_with_its_variable_and_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, takes: str
) -> None:
    """One sentence of our own, whatever kind of setting it is."""
    monkeypatch.setenv(f"READONCE_{name}", value)
    problem = refusal()
    assert (problem.code, problem.message) == ("bad_setting", f"READONCE_{name} is {value!r}; it takes {takes}.")


def test_bad_value_is_told_with_the_place_that_it_came_from(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has a bad key in the file does not look for a variable, and the other way round."""
    file = home / "readonce.toml"
    file.write_text("port = 'many'\n")
    takes = "it takes a whole number from 1 to 65535."
    assert refusal().message == f"port in {file} (READONCE_PORT) is 'many'; {takes}"
    monkeypatch.setenv("READONCE_PORT", "more")
    assert refusal().message == f"READONCE_PORT is 'more'; {takes}"
    with pytest.raises(Problem, match=r"^READONCE_PROFILE, as given here, is 'foo'; it takes auto, cpu, 12gb"):
        Settings.load(profile="foo", port=1)


@pytest.mark.parametrize("name", sorted(NEVER_SHOWN - {"engine_token", "people_database"}))
def test_bad_value_that_may_hold_a_password_is_not_shown(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A log may keep the sentence."""
    monkeypatch.setenv(f"READONCE_{name.upper()}", "mysql://me:s3cret@host/x")
    problem = refusal()
    assert "s3cret" not in problem.message
    assert problem.message.endswith("or postgresql://user:password@host/database.")


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_says_what_it_is_and_what_it_takes(name: str) -> None:
    """In a line, without pydantic's words."""
    field = Settings.model_fields[name]
    assert field.description
    assert "\n" not in field.description
    assert re.fullmatch(r"[a-z][^_\[\]{}]*", takes(field).replace("kv_dtype", ""))


def test_documented_table_is_the_settings_own() -> None:
    """`readonce settings --markdown > app/settings.md` makes it anew."""
    assert (Path(app.__file__).parent / "settings.md").read_text(encoding="utf-8") == markdown()


def test_each_setting_is_listed_with_its_place_and_no_password(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set where is seen at a glance; what is secret is seen to be set."""
    (home / "readonce.toml").write_text("answer_tokens = 11\nport = 9000\n")
    monkeypatch.setenv("READONCE_PORT", "9001")
    monkeypatch.setenv("READONCE_ENGINE_TOKEN", "s3cret")
    monkeypatch.setenv("READONCE_HISTORY", "postgresql://me:s3cret@host/x")
    monkeypatch.setenv("READONCE_OTLP_ENDPOINT", "http://me:s3cret@host")
    monkeypatch.setenv("READONCE_MODEL", "")
    listed = {row.name: row for row in rows(Settings.load(kv_dtype="fp8"), kv_dtype="fp8")}
    assert [name.removeprefix("READONCE_").lower() for name in listed] == list(Settings.model_fields)
    seen = {name: (row.value, row.default, row.place) for name, row in listed.items() if row.place != "default"}
    assert seen == {
        "READONCE_HOME": (str(home), "~/.local/share/readonce", "variable"),
        "READONCE_ANSWER_TOKENS": ("11", "256", "readonce.toml"),
        "READONCE_PORT": ("9001", "8756", "variable"),
        "READONCE_ENGINE_TOKEN": ("(set, not shown)", "none", "variable"),
        "READONCE_HISTORY": ("(set, not shown)", "sqlite", "variable"),
        "READONCE_OTLP_ENDPOINT": ("(set, not shown)", "none", "variable"),
        "READONCE_KV_DTYPE": ("fp8", "auto", "command line"),
    }
    assert all(
        row.value == row.default for row in listed.values() if row.place == "default" and "CACHE" not in row.name
    )


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
