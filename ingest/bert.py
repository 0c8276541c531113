"""Decides how one short text goes through a small BERT in NumPy: a command that asks one question waits for no torch.

Importing torch and what stands on it takes five seconds of a core, this a tenth of one. The vectors are those of
`embed_transformer`, which embeds all else; only a folder whose model is of the plain kind is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

Array = npt.NDArray[np.float32]

# What the steps below do; another model is left to its library.
_PLAIN = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
_erf = np.frompyfunc(math.erf, 1, 1)


@dataclass(frozen=True)
class Bert:
    """Weights by their names in the model's file, float32."""

    weights: Mapping[str, Array]
    num_layers: int
    num_heads: int
    epsilon: float

    @classmethod
    def of_folder(cls, folder: Path) -> Bert | None:
        """None where the folder has no such model, or it is not of the plain kind. Reads all weights (50 ms)."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            pooling = json.loads((folder / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
            modes = {name for name, on in pooling.items() if name.startswith("pooling_mode_") and on}
            if any(config.get(name, plain) != plain for name, plain in _PLAIN.items()) or "model_type" not in config:
                return None
            if modes != {"pooling_mode_mean_tokens"}:
                return None
            weights = load_file(folder / "model.safetensors")
            made = cls(
                {name.removeprefix("bert."): array.astype(np.float32, copy=False) for name, array in weights.items()},
                int(config["num_hidden_layers"]),
                int(config["num_attention_heads"]),
                float(config["layer_norm_eps"]),
            )
            made.embed([0])  # another layout of weights is found here
        except (OSError, ValueError, KeyError, TypeError, SafetensorError):
            return None
        return made

    def embed(self, ids: Sequence[int]) -> Array:
        """The unit vector of a text's token ids, special tokens included."""
        # The work is small: cores that wait for each other would take longer than one of them alone.
        with threadpool_limits(limits=1, user_api="blas"):
            return self._embedded(ids)

    def _embedded(self, ids: Sequence[int]) -> Array:
        states = self.weights["embeddings.word_embeddings.weight"][list(ids)]
        states = states + self.weights["embeddings.position_embeddings.weight"][: len(ids)]
        states = states + self.weights["embeddings.token_type_embeddings.weight"][0]
        states = self._normed(states, "embeddings.LayerNorm")
        for number in range(self.num_layers):
            layer = f"encoder.layer.{number}"
            attended = self._dense(self._attended(states, f"{layer}.attention.self"), f"{layer}.attention.output.dense")
            states = self._normed(states + attended, f"{layer}.attention.output.LayerNorm")
            inner = _gelu(self._dense(states, f"{layer}.intermediate.dense"))
            states = self._normed(states + self._dense(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
        mean = states.mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean), dtype=np.float32)

    def _attended(self, states: Array, name: str) -> Array:
        query, key, value = (self._heads(self._dense(states, f"{name}.{part}")) for part in ("query", "key", "value"))
        scores = query @ key.transpose(0, 2, 1) / np.float32(math.sqrt(query.shape[2]))
        shares = np.exp(scores - scores.max(axis=2, keepdims=True))
        shares /= shares.sum(axis=2, keepdims=True)
        attended: Array = (shares @ value).transpose(1, 0, 2).reshape(states.shape)
        return attended

    def _heads(self, states: Array) -> Array:
        """(tokens, width) as (heads, tokens, width of a head)."""
        return states.reshape(len(states), self.num_heads, -1).transpose(1, 0, 2)

    def _dense(self, states: Array, name: str) -> Array:
        made: Array = states @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]
        return made

    def _normed(self, states: Array, name: str) -> Array:
        centred = states - states.mean(axis=1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=1, keepdims=True) + np.float32(self.epsilon))
        made: Array = centred / scale * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return made


def _gelu(states: Array) -> Array:
    half = np.float32(0.5)
    made: Array = half * states * (1 + _erf(states * np.float32(math.sqrt(0.5))).astype(np.float32))
    return made
