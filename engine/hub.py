"""Decides how a model comes from the model hub: quickly if it answers, with a clear reason in seconds if it does not.

Downloads go to the hub client's own cache, so that a model which another program has fetched is not fetched again, and
an interrupted download goes on where it stopped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from engine.base import EngineError
from engine.progress import Progress
from engine.weights import TOKENIZER_FILES

ANSWER_WITHIN_S = 6.0
MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.jinja", "LICENSE*")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_hub_id(name: str) -> bool:
    """Whether `name` has the form `organisation/model`."""
    return _HUB_ID.fullmatch(name) is not None


def find(hub_id: str, files: tuple[str, ...] = MODEL_FILES) -> Path | None:
    """The folder of an earlier download in the hub client's cache, without asking the network; it may be in part."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(hub_id, allow_patterns=list(files), local_files_only=True))
    except (OSError, ValueError):  # its ways of saying "not there"; LocalEntryNotFoundError is one of them
        return None


def fetch(hub_id: str, progress: Progress, files: tuple[str, ...] = MODEL_FILES) -> Path:
    """Downloads `hub_id`.

    Raises:
        EngineError: `hub_failed` with the reason; within `ANSWER_WITHIN_S` seconds where the hub can't be reached.
    """
    from huggingface_hub import HfApi, snapshot_download

    with _reasons(hub_id):
        _within(ANSWER_WITHIN_S, lambda: HfApi().model_info(hub_id, timeout=ANSWER_WITHIN_S))
        what = "the tokenizer of " if files == TOKENIZER_FILES else ""
        progress.say(f"Downloading {what}{hub_id} from the model hub.")
        with _bars(progress.is_watched):
            return Path(snapshot_download(hub_id, allow_patterns=list(files)))


def _within(seconds: float, ask: Callable[[], object]) -> None:
    """Runs `ask`, but waits no longer: name look-ups and lists of dead addresses have no time limit of their own."""
    raised: list[Exception] = []

    def run() -> None:
        try:
            ask()
        except Exception as error:  # handed to the waiting thread, whatever it is
            raised.append(error)

    thread = Thread(target=run, daemon=True, name="ask-hub")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError
    if raised:
        raise raised[0]


@contextmanager
def _bars(shown: bool) -> Iterator[None]:
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if shown or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


@contextmanager
def _reasons(hub_id: str) -> Iterator[None]:
    """Turns what the hub client raises into one reason each."""
    from huggingface_hub import errors

    try:
        yield
    except EngineError:
        raise
    except TimeoutError as error:
        raise EngineError("hub_failed", f"no answer within {ANSWER_WITHIN_S:.0f} seconds") from error
    except errors.OfflineModeIsEnabled as error:
        raise EngineError("hub_failed", "HF_HUB_OFFLINE is set") from error
    except errors.GatedRepoError as error:
        raise EngineError("hub_failed", f"{hub_id} asks you to accept its terms and to log in") from error
    except errors.RepositoryNotFoundError as error:
        raise EngineError("hub_failed", f"it has no public model {hub_id}") from error
    except errors.HfHubHTTPError as error:
        raise EngineError("hub_failed", f"it answered {error.response.status_code}") from error
    except Exception as error:  # its HTTP library's errors, which it does not wrap; the name is all that is stable
        raise EngineError("hub_failed", f"not reachable ({type(error).__name__})") from error
