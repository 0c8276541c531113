"""A prefix has the same token ids on every day, in every place and in every process: the golden digests.

A digest that differs means that every cached prefix of every user is lost: raise `prompt.TEMPLATE_VERSION`, and write
the new digests beside the new version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import write_tiny_tokenizer

from engine.prompt import TEMPLATE_VERSION

GOLDEN = {
    ("1", "gpt2"): [
        "77ef6ac9fb634bbfbdfb854d62f15dd39c31ef0066f1cabe4e8bd423546f6714",
        "5b3f32aa5e77e9433b860fccc1724777c166e19a27552345bd1d5f5951f7c68d",
    ],
    ("1", "qwen"): [
        "2f6832473b43c73b120b6d13d26cb1363ce203ee0220f3f778c8faa294b498a6",
        "2cc7d3565909dc258b643f75768bb7350d3b5ad5519f05e45f56f52f7bf2085d",
    ],
    ("1", "smollm2-135m"): [
        "2c970de81814bfa6b420324b9719da73cd34564395e6103c2a5c19acaed364c1",
        "730a56ec36db65030b34b47121953ee9a84de8727c66c215bbf7979f97173d9a",
    ],
}
WORLDS = [
    # unix time, locale, time zone, PYTHONHASHSEED, seed that shuffles the hits
    (951_782_400.0, "C.UTF-8", "UTC", "0", 1),
    (4_102_444_799.0, "C.UTF-8", "Asia/Shanghai", "1", 2),
    (951_782_400.0, "C", "America/St_Johns", "1", 3),
    (4_102_444_799.0, "POSIX", "UTC", "0", 4),
]


def read_in_child(folder: Path, world: tuple[float, str, str, str, int]) -> dict:
    now, language, zone, hash_seed, shuffle = world
    root = str(Path(__file__).parents[2])
    environment = os.environ | {
        "LC_ALL": language, "LANG": language, "TZ": zone, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": root,
    }  # fmt: skip
    script = Path(__file__).with_name("golden_child.py")
    command = [sys.executable, str(script), str(folder), str(now), str(shuffle)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, encoding="utf-8")
    return json.loads(run.stdout)


def check(folder: Path, name: str) -> None:
    outputs = [read_in_child(folder, world) for world in WORLDS]
    assert {output["date"] for output in outputs} == {"2000-02-28", "2000-02-29", "2099-12-31", "2100-01-01"}
    assert [output["digests"] for output in outputs] == [GOLDEN[TEMPLATE_VERSION, name]] * len(WORLDS)
    assert len({tuple(output["ids"]) for output in outputs}) == 1


@pytest.mark.parametrize("family", ["gpt2", "qwen"])
def test_prefix_has_its_golden_ids_in_every_world(family: str, tmp_path: Path) -> None:
    """Two dates, locales, time zones, hash seeds, and any order of hits: the committed digests."""
    check(write_tiny_tokenizer(tmp_path, qwen=family == "qwen"), family)


@pytest.mark.engine
def test_prefix_of_the_test_model_has_its_golden_ids(model_folder: Path) -> None:
    """The same with the vocabulary of SmolLM2."""
    check(model_folder, "smollm2-135m")
