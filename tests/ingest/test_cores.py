"""Measured on one core means on one core, whatever the program would like."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ingest.cores import held_to, num_cores

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system keeps no process to a core")


def cores_of_a_child() -> int:
    program = [sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)))"]
    return int(subprocess.run(program, capture_output=True, text=True, check=True).stdout)


def test_processes_started_in_the_block_have_so_many_cores_and_later_ones_all():
    before = os.sched_getaffinity(0)
    with held_to(1):
        assert num_cores() == cores_of_a_child() == 1
    assert os.sched_getaffinity(0) == before
    assert cores_of_a_child() == len(before)


def test_an_error_in_the_block_gives_the_cores_back():
    before = os.sched_getaffinity(0)
    with pytest.raises(ValueError, match="wrong"), held_to(1):
        raise ValueError("wrong")
    assert os.sched_getaffinity(0) == before
