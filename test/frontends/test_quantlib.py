"""Compare RequantShift of quantlib and Deeploy with integers of Python."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_models import Array, model, node

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError

MULTIPLIERS = np.array([901, -636, 65536, 1], np.float32).reshape(4, 1, 1)
ADDENDS = np.array([315, 1715, -7, 2**20], np.float32).reshape(4, 1, 1)


def requantization(domain: str = "", **values: float) -> onnx.ModelProto:
    found = node("RequantShift", "x m a", "y")
    found.domain = domain
    for name, value in values.items():
        tensor = numpy_helper.from_array(np.array([value], np.float32))
        found.attribute.append(onnx.helper.make_attribute(name, tensor))
    constants = {"m": MULTIPLIERS, "a": ADDENDS}
    domains = {domain: 1} if domain else {}
    shapes = {"x": (1, 4, 5, 5)}
    return model([found], shapes, ["y"], constants, infer=False, domains=domains)


@pytest.mark.parametrize("domain", ["", "ai.onnx.contrib"])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("shift", [0, 1, 10, 17])
@pytest.mark.parametrize("levels", ["n_levels", "n_levels_out"])
def test_integers(domain: str, signed: int, shift: int, levels: str) -> None:
    proto = requantization(domain, div=1 << shift, signed=signed, **{levels: 256})
    x: Array = np.random.default_rng(3).integers(-40000, 40000, (1, 4, 5, 5)).astype(np.float32)
    expected = [
        (int(v) * int(MULTIPLIERS[c, 0, 0]) + int(ADDENDS[c, 0, 0]) + (1 << shift >> 1)) >> shift
        for c in range(4)
        for v in x[0, c].reshape(-1)
    ]
    low = -128 if signed else 0
    wanted = np.clip(expected, low, low + 255).astype(np.float32).reshape(x.shape)
    np.testing.assert_array_equal(run(import_model(proto), {"x": x})["y"], wanted)


def test_wrong_divisors_are_refused() -> None:
    with pytest.raises(InputError, match="'div' must be a power of two below 2\\^31, got 3"):
        import_model(requantization(div=3, signed=1, n_levels=256))
