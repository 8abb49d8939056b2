"""
Compute products and lookups with weights in blocks, one element at a time, without the interpreter.

Each step is a Python integer, or a float32 with a rounding of its own.
"""

from math import isnan

import numpy as np
from c_harness import Array, Values, constant, make_network
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import BlockMatmulOp
from ceras_ir.dialects.graph.blocks import UI8

Floats = NDArray[np.float32]


def integer_of(row: Array, i: int, bits: int) -> int:
    """Return element `i` of a packed row."""
    bit = i * bits
    return int(row[bit // 8]) >> bit % 8 & (1 << bits) - 1


def quantized_by_hand(values: Floats) -> tuple[list[int], np.float32]:
    """Return the integers and the scale of a block of the input."""
    magnitudes = [abs(float(v)) for v in values]
    if any(isnan(m) or m == float("inf") for m in magnitudes):
        return [0] * len(values), np.float32("nan")
    largest = np.float32(max(magnitudes))
    if largest < np.float32(2.0**-100):
        return [0] * len(values), np.float32(0)
    factor = np.float32(127) / largest
    # Python rounds half to even.
    return [round(float(np.float32(v * factor))) for v in values], largest / np.float32(127)


def product_by_hand(
    x: Floats,
    weights: Array,
    scales: Floats,
    points: Array | None,
    bias: Floats | None,
    sizes: tuple[int, int],
) -> Floats:
    """Return the product; `sizes` are the bits of an integer and the elements of a block."""
    bits, size = sizes
    result = np.zeros((len(x), len(weights)), np.float32)
    for m, row in enumerate(x):
        for n, stored in enumerate(weights):
            total = np.float32(0)
            for b, scale in enumerate(scales[n]):
                q, step = quantized_by_hand(row[b * size : (b + 1) * size])
                point = 1 << bits - 1 if points is None else int(points[n, b])
                pairs = enumerate(q, b * size)
                dot = sum(v * (integer_of(stored, i, bits) - point) for i, v in pairs)
                with np.errstate(all="ignore"):
                    total = np.float32(total + np.float32(np.float32(dot) * (step * scale)))
            result[m, n] = total if bias is None else total + bias[n]
    return result


class Case:
    """A random product [m, k] x [n, k] with blocks of `size` weights of `bits` bits."""

    def __init__(
        self, seed: int, bits: int, size: int, *, m: int = 2, n: int = 5, k: int = 40
    ) -> None:
        rng = np.random.default_rng(seed)
        blocks = -(-k // size)
        self.sizes = bits, size
        self.x = rng.normal(size=(m, k)).astype(np.float32)
        self.weights = rng.integers(0, 256, (n, blocks * size * bits // 8)).astype(np.uint8)
        self.weights[0], self.weights[-1] = 0, 255
        scales = rng.normal(size=(n, blocks)).astype(np.float32)
        self.halves = scales.astype(np.float16) if seed % 3 == 0 else None
        if self.halves is not None:
            flat = self.halves.reshape(-1)
            special = [0, 2**-24, -(2**-24), 1023 * 2**-24, 2**-14, 65504, -0.0]
            flat[: len(special)] = np.array(special[: flat.size], np.float16)
            scales = self.halves.astype(np.float32)
        self.scales = scales
        high = 1 << bits
        points = rng.integers(0, high, (n, blocks)).astype(np.uint8)
        self.points = points if seed % 2 else None
        self.bias = rng.normal(size=n).astype(np.float32) if seed % 4 < 2 else None

    def stored_scales(self) -> SSAValue:
        return constant(self.scales) if self.halves is None else constant(self.halves, f16)

    def network(self) -> ModuleOp:
        def build(x: SSAValue) -> Values:
            weights, scales = constant(self.weights, UI8), self.stored_scales()
            points = None if self.points is None else constant(self.points, UI8)
            bias = None if self.bias is None else constant(self.bias)
            bits, size = self.sizes
            op = BlockMatmulOp(x, weights, scales, points, bias, bits=bits, block=size)
            return [op.result]

        return make_network([(f32, self.x.shape)], build)

    def by_hand(self) -> Floats:
        given = self.weights, self.scales, self.points, self.bias
        return product_by_hand(self.x, *given, self.sizes)
