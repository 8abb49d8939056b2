"""Test that weights are encoded from a share of zeros: large layers not at 30%, but at 94%."""

import numpy as np
import pytest
from c_harness import check, constant, make_network, random_inputs
from slow_cases import first_fast
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.passes import ChooseEncodingsPass
from ceras_ir.dialects.graph import ConstantOp, Conv2dOp
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import run

SHARES = (0.0, 0.3, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.94, 0.97, 1.0)

LAYERS = {
    "5x5": ((1, 16, 16, 32), (32, 5, 5, 32)),
    "3x3": ((1, 14, 15, 32), (48, 3, 3, 32)),
    "1x1": ((1, 16, 16, 64), (128, 1, 1, 64)),
    "few": ((1, 20, 20, 3), (16, 3, 3, 3)),
}
"""Input and weights."""

SMALL = ("few",)
"""Few products do not amortize the cost of planes."""


def network(name: str, zeros: float, *, is_float: bool) -> ModuleOp:
    """Return the layer; zeros at a small share remain zeros at larger shares."""
    size, window = LAYERS[name]
    rng = np.random.default_rng(0)
    order, weights = rng.random(window), rng.integers(1, 128, window).astype(np.int8)
    weights[order < zeros] = 0
    element = f32 if is_float else UniformType(0.25)

    def build(x: SSAValue) -> list[SSAValue]:
        op = Conv2dOp(
            x, constant(weights.astype(np.float32) if is_float else weights, element),
            result_element=f32 if is_float else UniformType(1.0),
            padding=[window[1] // 2] * 4, requant=None if is_float else RequantAttr(7),
        )  # fmt: skip
        return [op.result]

    return make_network([(f32 if is_float else UniformType(0.5), size)], build)


@pytest.mark.parametrize("is_float", [False, True], ids=["bytes", "floats"])
@pytest.mark.parametrize("board", [None, "uno_r4_wifi"], ids=["host", "core"])
@pytest.mark.parametrize("name", first_fast(2, LAYERS))
def test_choice_turns_once(name: str, board: str | None, is_float: bool):
    choose = ChooseEncodingsPass(board=board)
    listed: list[bool] = []
    ratios: list[float] = []
    for zeros in SHARES:
        module = network(name, zeros, is_float=is_float)
        (layer,) = (op for op in module.walk() if isinstance(op, Conv2dOp))
        weights = layer.weights.owner
        assert isinstance(weights, ConstantOp)
        cost = choose.cost(layer, weights.array())
        assert cost is not None
        ratios.append(cost.sparse / cost.dense)
        choose.apply(Context(), module)
        listed.append(layer.encoded_weights is not None)
    assert ratios == sorted(ratios, reverse=True)
    assert listed == sorted(listed)
    by_share = dict(zip(SHARES, listed, strict=True))
    assert not by_share[0.3]
    if name not in SMALL:
        assert by_share[0.94] and ratios[SHARES.index(0.3)] > 1


@pytest.mark.parametrize(
    ("width", "signed", "point"),
    [(8, True, 3), (8, False, 0), (8, False, 128), (4, True, 3), (4, False, 8), (2, False, 2)],
)
def test_zero_points_and_types_without_sign(width: int, signed: bool, point: int):
    """Encoded weights are signed bytes with the zero point 0."""
    sign = Signedness.SIGNLESS if signed else Signedness.UNSIGNED
    element = UniformType(0.25, point, storage=IntegerType(width, sign))
    rng, size = np.random.default_rng(width), (32, 3, 3, 16)
    low, high = max(element.low, point - 60), min(element.high, point + 60)
    weights = rng.integers(low, high + 1, size).astype(np.int8 if signed else np.uint8)
    weights[rng.random(size) < 0.92] = point

    def build(x: SSAValue) -> list[SSAValue]:
        op = Conv2dOp(
            x, constant(weights, element), result_element=UniformType(1.0),
            padding=[1] * 4, requant=RequantAttr(7),
        )  # fmt: skip
        return [op.result]

    module = make_network([(UniformType(0.5, 2), (1, 12, 12, 16))], build)
    inputs = random_inputs(module)
    expected = run(module, inputs)["output0"]
    ChooseEncodingsPass().apply(Context(), module)
    assert "#sparse" in str(module)
    np.testing.assert_array_equal(check(module, inputs)["output0"], expected)
