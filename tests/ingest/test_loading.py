"""Heavy packages are imported out of the collector's sight, and it goes on afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ingest.loading import uncollected


def test_what_is_made_in_the_block_is_never_looked_through_and_the_collector_goes_on():
    before = gc.get_freeze_count()
    with uncollected():
        assert not gc.isenabled()
        kept = [[] for _ in range(1_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(kept)
    gc.unfreeze()


def test_an_import_that_fails_leaves_the_collector_as_it_was():
    with pytest.raises(ImportError, match="gone"), uncollected():
        raise ImportError("gone")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_one_thread_imports_at_a_time():
    """Two that import the same packages would find half of one: a first `add` on a new machine ended so."""
    inside, most, lock = 0, 0, threading.Lock()

    def load() -> None:
        nonlocal inside, most
        with uncollected():
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.01)
            with lock:
                inside -= 1

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, inside) == (1, 0)


def test_a_new_process_splits_in_many_threads_at_once():
    """Whoever comes first imports LlamaIndex; all find the whole of it."""
    code = (
        "import threading\n"
        "from ingest.passages import _llama_index\n"
        "found = []\n"
        "def load(): found.append(_llama_index().node_parser.SentenceSplitter)\n"
        "threads = [threading.Thread(target=load) for _ in range(6)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
        "assert len(found) == 6, len(found)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
