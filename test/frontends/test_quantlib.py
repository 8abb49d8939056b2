"""Compare the integer operators of quantlib and Deeploy with formulas on integers of Python."""

from collections.abc import Callable, Mapping
from math import isqrt
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_models import Array, model, node

import ceras_ir as ceras
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError, UnsupportedError

MULTIPLIERS = np.array([901, -636, 65536, 1], np.float32).reshape(4, 1, 1)
ADDENDS = np.array([315, 1715, -7, 2**20], np.float32).reshape(4, 1, 1)

Row = list[int]


def network(
    kind: str,
    shape: tuple[int, ...],
    constants: Mapping[str, Array] | None = None,
    domain: str = "",
    stored_in_tensors: bool = False,
    **values: int | list[int],
) -> onnx.ModelProto:
    """Return a model of one operator; integers can be stored in tensors of floats."""
    constants = constants or {}
    found = node(kind, " ".join(["x", *constants]), "y")
    found.domain = domain
    for name, value in values.items():
        stored = numpy_helper.from_array(np.array([value], np.float32))
        attribute = stored if stored_in_tensors else value
        found.attribute.append(onnx.helper.make_attribute(name, attribute))
    domains = {domain: 1} if domain else {}
    return model([found], {"x": shape}, ["y"], constants, infer=False, domains=domains)


def result(proto: onnx.ModelProto, x: Array) -> Array:
    return run(import_model(proto), {"x": x.astype(np.float32)})["y"]


def random(*shape: int, low: int = -128, high: int = 128) -> Array:
    return np.random.default_rng(3).integers(low, high, shape)


def requantization(domain: str = "", **values: int) -> onnx.ModelProto:
    constants = {"m": MULTIPLIERS, "a": ADDENDS}
    return network(
        "RequantShift", (1, 4, 5, 5), constants, domain, stored_in_tensors=True, **values
    )


@pytest.mark.parametrize("domain", ["", "ai.onnx.contrib", "PACTOps"])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("shift", [0, 1, 10, 17])
@pytest.mark.parametrize("levels", ["n_levels", "n_levels_out"])
def test_requantization(domain: str, signed: int, shift: int, levels: str) -> None:
    proto = requantization(domain, div=1 << shift, signed=signed, **{levels: 256})
    x = random(1, 4, 5, 5, low=-40000, high=40000)
    expected = [
        (int(v) * int(MULTIPLIERS[c, 0, 0]) + int(ADDENDS[c, 0, 0]) + (1 << shift >> 1)) >> shift
        for c in range(4)
        for v in x[0, c].reshape(-1)
    ]
    low = -128 if signed else 0
    wanted = np.clip(expected, low, low + 255).astype(np.float32).reshape(x.shape)
    np.testing.assert_array_equal(result(proto, x), wanted)


def test_integer_multipliers_give_integers() -> None:
    constants = {"m": np.array([[3], [-5]], np.int32), "a": np.array(7, np.int32)}
    proto = network("RequantShift", (2, 6), constants, div=4, signed=1, n_levels=256)
    x = random(2, 6)
    found = result(proto, x)
    assert found.dtype == np.int32
    wanted = [[v * m + 9 >> 2 for v in row] for row, m in zip(x.tolist(), (3, -5), strict=True)]
    np.testing.assert_array_equal(found, np.clip(wanted, -128, 127))


@pytest.mark.parametrize("shape", [(1, 3, 5), (2, 3), (1, 3, 2, 2)])
def test_multipliers_of_channels(shape: tuple[int, ...]) -> None:
    """Multipliers [C, 1, 1] belong to the channels of operands of any rank."""
    multipliers = np.array([3, -5, 9], np.float32).reshape(3, 1, 1)
    constants = {"m": multipliers, "a": np.array(7, np.float32)}
    proto = network("RequantShift", shape, constants, div=4, signed=1, n_levels=256)
    x = random(*shape)
    factors = multipliers.reshape(3, *(1,) * (len(shape) - 2)).astype(np.int64)
    wanted = np.clip((x.astype(np.int64) * factors + 9) >> 2, -128, 127)
    np.testing.assert_array_equal(result(proto, x), wanted)


def test_wrong_divisors_are_refused() -> None:
    with pytest.raises(InputError, match="'div' must be a power of two below 2\\^31, got 3"):
        import_model(requantization(div=3, signed=1, n_levels=256))


def quotient(a: int, b: int) -> int:
    """Return the quotient without the fraction."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def softmax(row: Row, a: int = 2, b: int = 173, c: int = 15599, unit: int = 27) -> Row:
    top = max(row)
    terms: Row = []
    for x in row:
        z = min((top - x) // unit, 31)
        terms.append((a * (x - top + z * unit + b) ** 2 + c) >> z)
    return [t * 255 // sum(terms) for t in terms]


def ita_max(row: Row) -> Row:
    shifts = [(max(row) - x + 16) >> 5 for x in row]
    inverse = 255 * 256 // sum(256 >> s for s in shifts)
    return [inverse >> s for s in shifts]


def ita_partial_max(row: Row, width: int = 4) -> Row:
    top, total = -128, 0
    for start in range(0, len(row), width):
        group = row[start : start + width]
        if max(group) > top:
            total >>= (max(group) - top + 16) >> 5
            top = max(group)
        total += sum(256 >> ((top - x + 16) >> 5) for x in group)
    return [127 * 256 // total >> ((top - x + 16) >> 5) for x in row]


WEIGHTS = random(16, low=-9000, high=9000)
BIASES = random(16, low=-70000, high=70000)


def rms_norm(row: Row) -> Row:
    root = isqrt(sum(x * x for x in row) // len(row) + 1)
    return [
        min(max(quotient(x * int(w), root) >> 8, -128), 127)
        for x, w in zip(row, WEIGHTS, strict=True)
    ]


def layer_norm(row: Row) -> Row:
    mean = quotient(sum(row), len(row))
    centered = [x - mean for x in row]
    root = isqrt(sum(x * x for x in centered) // len(row) + 1)
    return [
        min(max((quotient(x * int(w), root) + int(b)) >> 10, -128), 127)
        for x, w, b in zip(centered, WEIGHTS, BIASES, strict=True)
    ]


def no_norm(row: Row) -> Row:
    return [
        min(max((x * int(w) + int(b)) * 25 >> 16, -128), 127)
        for x, w, b in zip(row, WEIGHTS, BIASES, strict=True)
    ]


def gelu(row: Row, b: int = -40, one: int = 1743) -> Row:
    found: Row = []
    for x in row:
        curve = one - (min(abs(x), -b) + b) ** 2
        found.append(x * ((one + ((x > 0) - (x < 0)) * curve) >> 1))
    return found


CASES: dict[str, tuple[onnx.ModelProto, Callable[[Row], Row]]] = {
    "softmax": (
        network(
            "iSoftmax", (1, 6, 16), coeffA=2, coeffB=173, coeffC=15599, log2=27, n_levels=256,
            stored_in_tensors=True,
        ),
        softmax,
    ),
    "ita_max": (network("ITAMax", (1, 6, 16), n_levels=256), ita_max),
    "ita_partial_max": (
        network("ITAPartialMax", (1, 6, 16), n_levels=256, group_width=4),
        ita_partial_max,
    ),
    "rms_norm": (
        network("iRMSNorm", (1, 6, 16), {"w": WEIGHTS.astype(np.float32)}, D=256, n_levels=256),
        rms_norm,
    ),
    "layer_norm": (
        network(
            "iLayerNorm", (1, 6, 16),
            {"w": WEIGHTS.astype(np.float32), "b": BIASES.astype(np.float32)},
            stored_in_tensors=True, D=1 << 10, n_levels=256,
        ),
        layer_norm,
    ),
    "no_norm": (
        network(
            "iNoNorm", (1, 6, 16),
            {"w": WEIGHTS.astype(np.float32), "b": BIASES.astype(np.float32)},
            D=1 << 16, n_levels=256, mul=25,
        ),
        no_norm,
    ),
    "gelu": (network("iGELU", (1, 6, 16), domain="PACTOps", b=-40, one=1743), gelu),
    "hard_swish": (
        network("iHardswish", (1, 6, 16), three=70, six=140, one_over_six=33),
        lambda row: [x * (min(max(x + 70, 0), 140) * 33) for x in row],
    ),
    "leaky_relu": (
        network("iLeakyReLU", (1, 6, 16), mul=3, shift=4),
        lambda row: [x if x >= 0 else x * 3 >> 4 for x in row],
    ),
    "true_division": (
        network("TrueIntegerDiv", (1, 6, 16), Delta=16384, eps=1, eta=2000, y=3),
        lambda row: [x * (16384 * 2000 // 6001) for x in row],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rows(name: str) -> None:
    proto, formula = CASES[name]
    x = random(1, 6, 16)
    x[0, 0] = 5
    wanted = [formula(row) for row in x[0].tolist()]
    np.testing.assert_array_equal(result(proto, x)[0], wanted)


def test_division() -> None:
    proto = network(
        "IntegerDiv", (1, 3, 8), {"d": np.array([[[3], [7], [250]]], np.float32)},
        Delta=100, eps=1, eta=7,
    )  # fmt: skip
    x = random(1, 3, 8)
    wanted = [
        [quotient(700 * v + (1 if v >= 0 else -1) * ((7 * d + 1) // 2), 7 * d + 1) for v in row]
        for row, d in zip(x[0].tolist(), (3, 7, 250), strict=True)
    ]
    np.testing.assert_array_equal(result(proto, x)[0], wanted)


@pytest.mark.parametrize("steps", [8, 7])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_mean(steps: int, keepdims: int) -> None:
    proto = network("IntegerMean", (2, steps, 5), axes=[1], keepdims=keepdims)
    x = random(2, steps, 5, low=-2, high=3)
    totals = x.sum(1).reshape(-1).tolist()
    if steps == 8 and not keepdims:
        wanted = [(total + 4) >> 3 for total in totals]
    else:
        wanted = [quotient(t + (1 if t >= 0 else -1) * (steps // 2), steps) for t in totals]
    found = result(proto, x)
    assert found.shape == ((2, 1, 5) if keepdims else (2, 5))
    np.testing.assert_array_equal(found.reshape(-1), wanted)


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (network("iGELU", (1, 4), b=-40), "attribute 'one' is missing"),
        (network("ITAMax", (1, 4), n_levels=1), r"levels must be in \[2, 2\^31\], got 1"),
        (network("ITAPartialMax", (1, 6), n_levels=256, group_width=4), "groups of 4 in 6"),
        (network("ITAPartialMax", (), n_levels=256, group_width=4), "groups of 4 in 0"),
        (network("iLeakyReLU", (1, 4), mul=1, shift=40), r"'shift' must be in \[0, 31\], got 40"),
        (network("iGELU", (1, 4), b=[1, 2], one=3), "'b' must be a single integer"),
        (network("iHardswish", (1, 4), three=1, six=-1, one_over_six=3), "'six' must be positive"),
        (network("TrueIntegerDiv", (1, 4), Delta=1, eps=0, eta=0, y=1), "must be positive"),
        (
            network("iSoftmax", (1, 4), coeffA=1, coeffB=0, coeffC=0, log2=2, n_levels=2),
            "coefficients 1, 0 and 0",
        ),
    ],
)
def test_wrong_attributes_are_refused(proto: onnx.ModelProto, text: str) -> None:
    with pytest.raises((InputError, UnsupportedError), match=text):
        import_model(proto)


def test_operators_in_c(tmp_path: Path) -> None:
    """The compiled networks have the integers of the formulas."""
    x = random(1, 6, 16)
    for name in ("softmax", "layer_norm", "ita_partial_max"):
        proto, formula = CASES[name]
        (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
        found = (
            ceras.load(tmp_path / "model.onnx").compile("c").run({"x": x.astype(np.float32)})["y"]
        )
        np.testing.assert_array_equal(found[0], [formula(row) for row in x[0].tolist()])
