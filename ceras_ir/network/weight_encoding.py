"""
Weights of `graph.encoded_matmul` in flash: what is stored, in how many bytes, and how many
instructions of a Cortex-M4 it takes to multiply by them.

The bytes are exact and come from the very arrays that the C backend prints. The instructions
are a model, measured once on generated code (`benchmarks/arduino_mlp.py` prints both).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph.encoded import Encoding

Array = NDArray[np.generic]

FARTHEST = 255
"""The greatest distance that `csr_delta8` stores."""


def stored_weights(encoding: Encoding, weights: Array) -> NDArray[np.bool_]:
    """Which of `weights` [N, K] take part in the sums: see `EncodedMatmulOp`."""
    if encoding is Encoding.DENSE:
        return np.ones(weights.shape, np.bool_)
    stored = weights != 0
    if encoding is Encoding.CSR_DELTA8 and weights.shape[1] > FARTHEST + 1:
        for row in stored:
            columns = np.flatnonzero(row)
            before = np.concatenate(([0], columns))[:-1]
            for start, end in zip(before, columns, strict=True):
                row[start + FARTHEST : end : FARTHEST] = True
    return stored


@dataclass(frozen=True)
class SparseRows:
    """The arrays of a sparse encoding."""

    counts: Array
    """Stored weights of each row; 8 bits where that is enough."""
    places: Array
    """Distances or columns, row by row."""
    values: Array

    @classmethod
    def of(cls, encoding: Encoding, weights: Array) -> "SparseRows":
        assert encoding in (Encoding.CSR_DELTA8, Encoding.CSR_INDEX16)
        stored = stored_weights(encoding, weights)
        counts = stored.sum(axis=1)
        rows, columns = np.nonzero(stored)
        places = columns.astype(np.uint16)
        if encoding is Encoding.CSR_DELTA8:
            first = np.concatenate(([True], rows[1:] != rows[:-1]))[: rows.size]
            before = np.where(first, 0, np.concatenate(([0], columns[:-1]))[: rows.size])
            places = (columns - before).astype(np.uint8)
        narrow = np.uint8 if counts.max(initial=0) <= 255 else np.uint16
        return cls(counts.astype(narrow), places, weights[stored])

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + self.places.nbytes + self.values.nbytes


CODE_BYTES_PER_WEIGHT = 12
"""Flash per weight as code: three loads or sums of 4 bytes, less what literals share."""


def weight_bytes(encoding: Encoding, weights: Array) -> int:
    """Flash that the weights take, without alignment."""
    match encoding:
        case Encoding.DENSE:
            return weights.nbytes
        case Encoding.CODE:
            return CODE_BYTES_PER_WEIGHT * int(np.count_nonzero(weights)) + 8 * weights.shape[0]
        case _:
            return SparseRows.of(encoding, weights).nbytes


def quantized_like_s4(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], float]:
    """
    S4's int8 weights and their scale S: `stored = clip(round(w * (127 / max|w|)), -128, 127)`,
    ties to even, and `w` is about `stored * S` with `S = max|w| / 127` rounded to float32.
    """
    largest = float(np.abs(weights).max(initial=0.0))
    if largest == 0.0:
        return np.zeros(weights.shape, np.int8), 1.0
    scaled = np.rint(weights.astype(np.float64) * (127.0 / largest))
    return np.clip(scaled, -128, 127).astype(np.int8), float(np.float32(largest / 127.0))
