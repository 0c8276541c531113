"""An engine is found or started, lives as long as it is used, and leaves nothing behind. A small server plays vLLM."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes import Hold, eventually, holding, pids_of_group

from engine.base import EngineError
from engine.lease import connect, find, status, stop
from engine.probe import probe
from engine.record import read_record
from engine.server import EngineSettings
from engine.wire import Line, socket_path

HERE = Path(__file__).parent
PROGRAM = (sys.executable, str(HERE / "dummy_engine.py"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny-model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")  # no tensors, but whole
    return folder


@pytest.fixture
def settings(tmp_path: Path, model: Path) -> Iterator[EngineSettings]:
    made = EngineSettings(str(model), tmp_path / "state", tmp_path / "cache", device="cpu", start_timeout_s=60)
    yield made
    stop(made)


def with_mode(settings: EngineSettings, mode: str, **changes: Any) -> EngineSettings:
    return EngineSettings(**(vars(settings) | {"extra_args": ("--dummy", mode)} | changes))


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Starts a process that holds a lease."""
    with holding(*PROGRAM) as start:
        yield start


def next_words(holder: subprocess.Popen[str], kind: str) -> list[str]:
    assert holder.stdout is not None
    for line in holder.stdout:
        words = line.split()
        if words[0] == kind:
            return words[1:]
    raise AssertionError(f"the holder ended without saying {kind!r}")


def test_engine_is_started_used_and_gone_with_its_last_lease(settings: EngineSettings) -> None:
    """What runs is told; closing the only lease ends the process and forgets the record."""
    said: list[str] = []
    lease = connect(settings, said.append, program=PROGRAM)
    engine = lease.engine
    assert (engine.model, engine.max_model_len, engine.block_size, engine.num_blocks, engine.version) == (
        "tiny-model", 4096, 32, 99, "0.29.0",
    )  # fmt: skip
    assert find(settings) == engine
    found = status(settings)
    assert found is not None
    assert (found.num_leases, found.pid, found.stage) == (1, engine.pid, "")
    record = settings.state_dir / "engine.json"
    assert record.stat().st_mode & 0o777 == 0o600
    assert engine.pid is not None
    lease.close()
    assert eventually(lambda: not pids_of_group(engine.pid or 0))
    assert find(settings) is None
    assert not record.exists()
    assert not socket_path(settings.state_dir).exists()


def test_an_engine_started_here_wants_its_own_token(settings: EngineSettings) -> None:
    """A new one each time, in the record of the owner only; it is found with its features, and shown to nobody."""
    tokens = []
    for _ in range(2):
        with connect(settings, program=PROGRAM) as lease:
            engine = lease.engine
            record = read_record(settings.state_dir)
            assert record is not None
            assert engine.token == record.token
            assert engine.features == {"core": True, "attention": False, "events": True}
            assert str(engine.token) not in f"{engine} {record}"
            tokens.append(engine.token)
            assert probe(engine.url, token=engine.token).features == engine.features
            for token, said in ((None, "wants a token"), ("other", "does not take this token")):
                with pytest.raises(EngineError, match=said) as caught:
                    connect(replace(settings, url=engine.url, token=token))
                assert caught.value.code == "token_refused"
                refused = status(replace(settings, url=engine.url, token=token))
                assert refused is not None
                assert refused.refusal is not None
                assert (refused.engine, refused.refusal.code) == (None, "token_refused")
            elsewhere = connect(replace(settings, url=engine.url, token=engine.token)).engine
            assert (elsewhere.model, elsewhere.token) == ("tiny-model", engine.token)
            lease.close()
    assert tokens[0] != tokens[1]
    assert all(len(token or "") >= 43 for token in tokens)


def test_second_command_finds_the_same_engine(settings: EngineSettings, hold: Hold) -> None:
    """Same instance, two leases; it lives until both are closed."""
    with connect(settings, program=PROGRAM) as lease:
        holder = hold(settings)
        pid, instance = next_words(holder, "ready")
        assert (int(pid), instance) == (lease.engine.pid, lease.engine.instance)
        found = status(settings)
        assert found is not None
        assert found.num_leases == 2
        lease.close()
        assert find(settings) == lease.engine
    holder.kill()
    assert eventually(lambda: find(settings) is None)


def test_simultaneous_starts_make_one_engine(settings: EngineSettings, hold: Hold) -> None:
    """Four processes ask at once: one instance."""
    holders = [hold(settings) for _ in range(4)]
    assert len({tuple(next_words(holder, "ready")) for holder in holders}) == 1


@pytest.mark.parametrize("mode", ["ready", "never-ready", "stubborn"])
def test_killed_holder_takes_the_engine_with_it(settings: EngineSettings, hold: Hold, mode: str) -> None:
    """kill -9 of the only user, ready or still starting: no process is left, even if the server ignores SIGTERM."""
    holder = hold(with_mode(settings, mode))
    next_words(holder, "report" if mode == "never-ready" else "ready")
    record = read_record(settings.state_dir)
    assert record is not None
    assert pids_of_group(record.pid)
    holder.kill()
    assert eventually(lambda: not pids_of_group(record.pid))


def test_interrupted_start_ends_the_engine(settings: EngineSettings, hold: Hold) -> None:
    """Ctrl-C while it starts: the command ends, and so does what it started."""
    holder = hold(with_mode(settings, "never-ready"))
    next_words(holder, "report")
    record = read_record(settings.state_dir)
    assert record is not None
    holder.send_signal(signal.SIGINT)
    next_words(holder, "interrupted")
    assert pids_of_group(record.pid) == set()


def test_interrupted_start_of_a_second_user_leaves_the_first_ones_engine_alone(
    settings: EngineSettings, hold: Hold
) -> None:
    """Ctrl-C ends only the command that it was meant for."""
    first = hold(with_mode(settings, "never-ready"))
    next_words(first, "report")
    second = hold(with_mode(settings, "never-ready"))
    next_words(second, "report")
    second.send_signal(signal.SIGINT)
    next_words(second, "interrupted")
    found = status(settings)
    assert found is not None
    assert found.num_leases == 1


def test_killed_engine_takes_its_children_with_it(settings: EngineSettings, tmp_path: Path) -> None:
    """kill -9 of the engine's own process: what it had started dies too, and the next start works."""
    pid_file = tmp_path / "child.pid"
    extra = ("--dummy", "child", "--dummy-pid-file", str(pid_file))
    lease = connect(with_mode(settings, "child", extra_args=extra), program=PROGRAM)
    assert lease.engine.pid is not None
    assert eventually(pid_file.exists)
    child = int(pid_file.read_text())
    assert child in pids_of_group(lease.engine.pid)
    os.kill(lease.engine.pid, signal.SIGKILL)
    assert eventually(lambda: child not in pids_of_group(lease.engine.pid or 0))
    assert find(settings) is None
    with connect(settings, program=PROGRAM) as second:
        assert second.engine.instance != lease.engine.instance


def test_engine_lingers_after_a_command_that_ended_well(settings: EngineSettings, hold: Hold) -> None:
    """It waits the seconds it was told to; a new lease meanwhile makes it stay, the next end without a word ends it."""
    holder = hold(settings)
    pid, instance = next_words(holder, "ready")
    assert holder.stdin is not None
    holder.stdin.write("linger 60\n")
    holder.stdin.flush()
    holder.wait(timeout=10)
    found = find(settings)
    assert found is not None
    assert found.instance == instance
    lease = connect(settings, program=PROGRAM)
    assert lease.engine.instance == instance
    lease.close(linger_s=0.2)
    assert eventually(lambda: not pids_of_group(int(pid)))


def test_block_that_ends_with_an_exception_does_not_leave_the_engine_running(
    settings: EngineSettings, hold: Hold
) -> None:
    """A context manager's good end lingers, its bad end does not."""
    with connect(settings, program=PROGRAM) as lease:
        pass
    assert find(settings) == lease.engine
    holder = hold(settings)
    next_words(holder, "ready")
    assert holder.stdin is not None
    holder.stdin.write("raise\n")
    holder.stdin.flush()
    assert eventually(lambda: find(settings) is None)


def test_looking_does_not_keep_an_engine_nor_end_it(settings: EngineSettings) -> None:
    """find and status are no leases."""
    lease = connect(settings, program=PROGRAM)
    for _ in range(3):
        assert find(settings) == lease.engine
    lease.close(linger_s=60)
    for _ in range(3):
        assert find(settings) == lease.engine


def test_stop_ends_the_engine_whoever_uses_it(settings: EngineSettings) -> None:
    """True where one ran; its group is empty afterwards."""
    lease = connect(with_mode(settings, "stubborn"), program=PROGRAM)
    assert lease.engine.pid is not None
    assert stop(settings) is True
    assert pids_of_group(lease.engine.pid) == set()
    assert stop(settings) is False
    assert status(settings) is None


def test_engine_in_use_with_another_model_is_named(settings: EngineSettings, model: Path, tmp_path: Path) -> None:
    """It is not replaced under its user; once nobody uses it, it makes room."""
    other = EngineSettings(**(vars(settings) | {"model": str(model.rename(tmp_path / "other-model"))}))
    lease = connect(other, program=PROGRAM)
    (tmp_path / "other-model").rename(model)
    with pytest.raises(EngineError, match="other-model is in use") as caught:
        connect(settings, program=PROGRAM)
    assert caught.value.code == "other_model"
    lease.close(linger_s=60)
    with connect(settings, program=PROGRAM) as second:
        assert second.engine.model == "tiny-model"
        second.close()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"model": "qwen2.5-coder-0.6b"}, "model_unknown"),
        ({"kv_offloading_gib": 1.0}, "needs_a_gpu"),
        ({"profile": "nine"}, "profile_unknown"),
    ],
)
def test_what_can_not_be_started_does_not_end_the_engine_that_waits(
    settings: EngineSettings, model: Path, tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    """A misspelt model, a setting that can't be: what the idle engine has read is not lost for it."""
    with connect(settings, program=PROGRAM) as lease:
        engine = lease.engine
    other = tmp_path / "other-model"
    shutil.copytree(model, other)
    with pytest.raises(EngineError) as caught:
        connect(replace(settings, **{"model": str(other), **changes}), program=PROGRAM)
    assert caught.value.code == code
    assert find(settings) == engine


def test_stale_record_of_another_boot_is_no_engine(settings: EngineSettings) -> None:
    """A record without a keeper behind it, even with a live pid, counts for nothing and is replaced."""
    settings.state_dir.mkdir()
    record = {
        "url": "http://127.0.0.1:9", "model": "tiny-model", "folder": "", "pid": os.getpid(), "instance": "old",
        "started": 0.0, "asked_for": settings.model,
    }  # fmt: skip
    (settings.state_dir / "engine.json").write_text(json.dumps(record))
    assert find(settings) is None
    assert stop(settings) is False
    with connect(settings, program=PROGRAM) as lease:
        assert lease.engine.instance != "old"
        lease.close()


def test_engine_that_does_not_answer_is_named_and_can_be_ended(
    settings: EngineSettings, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process (SIGSTOP) keeps its memory: no second one is started beside it, `stop` ends it."""
    monkeypatch.setattr("engine.wire._ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setattr("engine.attach._HANGS_AFTER_S", 0.2)
    pid = int(next_words(hold(settings), "ready")[0])
    os.kill(pid, signal.SIGSTOP)
    assert eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    found = status(settings)
    assert found is not None
    assert (found.engine, found.pid, found.stage) == (None, pid, "it does not answer")
    with pytest.raises(EngineError, match=rf"process {pid}\) does not answer.*engine --stop") as caught:
        connect(settings, program=PROGRAM)
    assert caught.value.code == "engine_hangs"
    assert stop(settings) is True
    assert pids_of_group(pid) == set()
    with connect(settings, program=PROGRAM) as lease:
        assert lease.engine.pid != pid
        lease.close()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"url": 1}'])
def test_broken_record_is_no_engine(settings: EngineSettings, content: str) -> None:
    """Half-written or foreign content is passed over."""
    settings.state_dir.mkdir()
    (settings.state_dir / "engine.json").write_text(content)
    assert status(settings) is None


def test_state_folder_with_a_very_long_path_works(settings: EngineSettings, tmp_path: Path) -> None:
    """A socket's path is limited by the kernel; a short one in the temporary folder is taken then."""
    deep = EngineSettings(**(vars(settings) | {"state_dir": tmp_path / ("d" * 120) / "state"}))
    assert len(str(socket_path(deep.state_dir))) < 100
    lease = connect(deep, program=PROGRAM)
    assert find(deep) == lease.engine
    assert stop(deep)


def test_starter_that_dies_before_its_lease_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that nobody ever leased ends by itself."""
    from engine import keeper

    ended = threading.Event()
    monkeypatch.setattr(keeper, "_FIRST_LEASE_S", 0.1)
    monkeypatch.setattr(keeper.Keeper, "_end", lambda self: ended.set())
    with keeper.Keeper(tmp_path):
        Line(tmp_path).close()  # looked at, not leased
        assert ended.wait(10)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The state folder of a keeper that would end nothing but itself."""
    from engine import keeper

    made = keeper.Keeper(tmp_path)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    made._end = lambda: None  # type: ignore[method-assign]  # else it ends this very process
    with made:
        yield tmp_path


@pytest.mark.parametrize("seconds", ["inf", "1e300", "3e6"])
def test_engine_that_lingers_for_ever_goes_on_answering(kept: Path, seconds: str) -> None:
    """More seconds than the kernel can wait at once: the next command still finds it, and takes a lease."""
    with Line(kept) as first:
        assert (first.ask("lease"), first.ask(f"linger {seconds}")) == ("ok", "ok")
    with Line(kept) as second:
        assert eventually(lambda: second.ask("leases") == "0")
    with Line(kept) as third:
        assert third.ask("lease") == "ok"


@pytest.mark.parametrize(
    "words", [b"linger soon\n", b"linger nan\n", b"linger -1\n", b"\xff\xfe\n", b"\n", b"lease now\n"]
)
def test_keeper_is_not_ended_by_words_that_it_does_not_know(kept: Path, words: bytes) -> None:
    """It says so, and goes on counting: without it the engine would outlive its users."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as odd, Line(kept) as user:
        odd.settimeout(5)
        odd.connect(str(socket_path(kept)))
        heard = odd.makefile("rb")
        heard.readline()
        odd.sendall(words)
        assert heard.readline() == b"what?\n"
        assert (user.ask("lease"), user.ask("leases")) == ("ok", "1")


def test_server_that_ends_at_once_leaves_no_traceback_of_its_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log would then tell of the keeper's thread, which had not got to its work yet, instead of what ended it."""
    from engine import keeper

    ended, listens, raised = threading.Event(), threading.Event(), threading.Event()

    class Slow(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
        def register(self, *args: Any) -> Any:
            ended.wait(10)
            key = super().register(*args)
            listens.set()
            return key

    monkeypatch.setattr(keeper.selectors, "DefaultSelector", Slow)
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.set())
    kept = keeper.Keeper(tmp_path)
    kept._end = lambda: None  # type: ignore[method-assign]  # for good: its thread outlives this test
    with kept:
        pass
    ended.set()
    assert listens.wait(10)
    assert not raised.is_set()


@pytest.mark.parametrize(
    ("said", "code", "sentence"),
    [
        ("OSError: [Errno 98] Address already in use", "port_taken", r"Port \d+ is taken .* choose another"),
        (
            "ValueError: To serve at least one request with the model's max seq len (8192), (0.18 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (0.01 GiB). Based on the available memory, "
            "the estimated maximum model length is 448. Try",
            "does_not_fit",
            r"8192 tokens needs 0.18 GiB .* only 0.01 GiB .* \(at most 448 fit\)",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", "out_of_memory", "not enough memory for the model"),
        ("RuntimeError: Cannot find any model weights with `x`", "weights_missing", "fetch the model again"),
        (
            "ValueError: User-specified max_model_len (99) is greater than the derived max_model_len (max_pos=8",
            "max_model_len_too_large",
            "reads at most 8 tokens, not 99",
        ),
        (
            "(EngineCore pid=1) ERROR 11-29 15:22:50 [core.py:7] KeyError: 'rope'\n"
            "RuntimeError: Engine core initialization failed. See root cause above.",
            "engine_died",
            r"It said: KeyError: 'rope'\. Its log is .*engine\.log",
        ),
    ],
)
def test_failed_start_is_one_sentence_that_says_what_to_do(
    settings: EngineSettings, said: str, code: str, sentence: str
) -> None:
    """What vLLM writes before it dies decides the code."""
    with pytest.raises(EngineError, match=sentence) as caught:
        connect(with_mode(settings, f"say {said}"), program=PROGRAM)
    assert caught.value.code == code
    assert "\n" not in caught.value.message
    assert find(settings) is None


def test_log_of_the_start_before_is_kept(settings: EngineSettings) -> None:
    """One generation back."""
    for word in ("first", "second"):
        with pytest.raises(EngineError):
            connect(with_mode(settings, f"say {word}"), program=PROGRAM)
    assert (settings.state_dir / "engine.log").read_text() == "second\n"
    assert (settings.state_dir / "engine.log.1").read_text() == "first\n"


def test_engine_that_is_not_ready_in_time_is_stopped(settings: EngineSettings) -> None:
    """The sentence gives the seconds and what it was at; nothing is left."""
    with pytest.raises(EngineError, match=r"not ready after 1 s \(it was starting vLLM\)") as caught:
        connect(with_mode(settings, "never-ready", start_timeout_s=1), program=PROGRAM)
    assert caught.value.code == "start_timeout"
    assert status(settings) is None


def test_taken_port_is_found_before_the_start(settings: EngineSettings) -> None:
    """No half minute is lost."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(EngineError, match=f"Port {port} is taken") as caught:
            connect(with_mode(settings, "ready", port=port), program=PROGRAM)
    assert caught.value.code == "port_taken"


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_incomplete_model_folder_is_found_before_the_start(settings: EngineSettings, model: Path, missing: str) -> None:
    """The sentence names the folder and what lacks."""
    (model / missing).unlink()
    with pytest.raises(EngineError, match=missing.replace("model.", r"\*\.")) as caught:
        connect(settings, program=PROGRAM)
    assert caught.value.code == "model_incomplete"
    assert not (settings.state_dir / "engine.log").exists()


def test_missing_vllm_is_said_plainly(settings: EngineSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to run, or what to use instead."""
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match="vLLM is not installed") as caught:
        connect(settings, program=PROGRAM)
    assert caught.value.code == "vllm_not_installed"


def test_engine_elsewhere_is_asked_what_it_is_and_left_alone(settings: EngineSettings) -> None:
    """With a url nothing is started, and closing or stopping does nothing to it."""
    with connect(settings, program=PROGRAM) as lease:
        url = f"{lease.engine.url}/v1/"
        elsewhere = EngineSettings(
            **(vars(settings) | {"url": url, "token": lease.engine.token, "state_dir": settings.state_dir / "none"})
        )
        remote = connect(elsewhere)
        assert (remote.engine.model, remote.engine.max_model_len) == ("tiny-model", 4096)
        assert remote.engine.url == lease.engine.url
        remote.close()
        assert stop(elsewhere) is False
        assert find(elsewhere) is not None
        assert not (settings.state_dir / "none").exists()
        lease.close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nonsense"])
def test_engine_elsewhere_that_does_not_answer_is_one_sentence(settings: EngineSettings, url: str) -> None:
    """connect raises, find says None."""
    elsewhere = EngineSettings(**(vars(settings) | {"url": url}))
    with pytest.raises(EngineError, match=url) as caught:
        connect(elsewhere)
    assert caught.value.code == "engine_unreachable"
    assert find(elsewhere) is None
