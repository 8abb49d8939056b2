"""
Compare SVDF layers with a memory of int8 with integers of Python. Only TensorFlow Lite Micro has
them.
"""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tflite_cases import CASES, SAMPLES, inputs_of

from ceras_ir.frontends.tflite import import_file
from ceras_ir.interpreters.network import in_turn
from ceras_ir.support.diagnostics import UnsupportedError

STEPS, UNITS, RANK = 4, 5, 2


def scaled(value: int, factor: float) -> int:
    """Return `value * factor` as a multiplier of 31 bits and two roundings compute it."""
    fraction, exponent = np.frexp(factor)
    multiplier, right = round(float(fraction) * 2**31), -int(exponent)
    high = (value * multiplier + 2**30) >> 31
    half = 1 << right >> 1
    return (high + half) >> right if high >= 0 else -((half - high) >> right)


@pytest.mark.parametrize("point", [0, 7])
def test_memory_of_bytes(point: int, tmp_path: Path) -> None:
    model = CASES["svdf_rank_int8"]()
    x, weights, filters, _, memory, result = model.tensors
    weights.data = np.random.default_rng(0).integers(-9, 10, weights.shape).astype(np.int8)
    assert filters.data is not None
    over_time = filters.data.astype(np.int64) // 100
    filters.data, filters.kind = over_time.astype(np.int8), "int8"
    filters.scales, memory.kind, memory.scales, memory.points = [0.03], "int8", [0.05], [point]
    path = tmp_path / "bytes.tflite"
    path.write_bytes(model.data())
    samples = inputs_of("svdf_rank_int8", model)[x.name]
    turns = [{x.name: samples[i]} for i in range(SAMPLES)]
    found = [each[result.name] for each in in_turn(import_file(str(path)), turns)]

    s = [np.float32(t.scales[0]) for t in (x, weights, memory, filters, result)]
    first, second = float(s[0] * s[1] / s[2]), float(s[2] * s[3] / s[4])
    kept = np.zeros((len(samples[0]), UNITS * RANK, STEPS), np.int64)
    for turn in range(SAMPLES):
        kept = np.roll(kept, -1, axis=2)
        sums = (samples[turn].astype(int) - x.points[0]) @ weights.data.astype(int).T
        kept[..., -1] = np.clip(np.vectorize(scaled)(sums, first), -128 - point, 127 - point)
        totals = (kept * over_time).sum(2).reshape(-1, UNITS, RANK).sum(2)
        wanted = np.vectorize(scaled)(totals, second) + result.points[0]
        np.testing.assert_array_equal(found[turn], np.clip(wanted, -128, 127))


def test_other_types_are_refused(tmp_path: Path) -> None:
    model = CASES["svdf_int8"]()
    model.tensors[2].kind = "int8"
    model.tensors[2].data = np.zeros(model.tensors[2].shape, np.int8)
    path = tmp_path / "mixed.tflite"
    path.write_bytes(model.data())
    with pytest.raises(UnsupportedError, match="int8 with a memory of int16"):
        import_file(str(path))


def test_weights_of_bytes_in_a_float_layer(tmp_path: Path) -> None:
    """The weights are dequantized; TensorFlow Lite quantizes the input in addition."""
    model = CASES["svdf_rank_float32"]()
    x, weights, filters, _, _, result = model.tensors
    real: list[NDArray[np.float64]] = []
    for tensor, scale in ((weights, 0.02), (filters, 0.01)):
        stored = np.random.default_rng(len(real)).integers(-127, 128, tensor.shape).astype(np.int8)
        tensor.data, tensor.kind, tensor.scales, tensor.points = stored, "int8", [scale], [0]
        real.append(stored.astype(np.float64) * scale)
    path = tmp_path / "hybrid.tflite"
    path.write_bytes(model.data())
    samples = inputs_of("svdf_rank_float32", model)[x.name]
    turns = [{x.name: samples[i]} for i in range(SAMPLES)]
    kept = np.zeros((len(samples[0]), UNITS * RANK, STEPS))
    for turn, found in enumerate(in_turn(import_file(str(path)), turns)):
        kept = np.roll(kept, -1, axis=2)
        kept[..., -1] = samples[turn] @ real[0].T
        totals = (kept * real[1]).sum(2).reshape(-1, UNITS, RANK).sum(2)
        outputs = found[result.name].astype(np.float64)
        np.testing.assert_allclose(outputs, np.maximum(totals, 0), rtol=1e-4, atol=1e-5)
