"""Test sparse kernels against the interpreter: exact integers, exact ordered floats."""

from pathlib import Path

import numpy as np
import pytest
from c_harness import check, constant, make_network, needs_arm, random_inputs
from firmware import write_files
from numpy.typing import NDArray
from slow_cases import first_fast
from xdsl.dialects.builtin import TensorType, UnitAttr, f32, i8, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.c import linear_sparse
from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.emulator import EmulatedModel
from ceras_ir.backends.c.machines import COptions, load_board
from ceras_ir.backends.c.planes import Planes, clustered
from ceras_ir.backends.c.sparse_code import products
from ceras_ir.backends.c.sums import Geometry
from ceras_ir.dialects.graph import (
    Cell,
    ConstantOp,
    Conv2dOp,
    Function,
    FunctionAttr,
    MatmulOp,
    RecurrenceOp,
)
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.dialects.sparse import BitmapAttr, CooAttr, CsrAttr, Encoded, SparseBlockAttr
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function

NATIVE = ("-O1", "-march=native")


def sparse_weights(
    rng: np.random.Generator, shape: tuple[int, ...], zeros: float, *, block: int = 1
) -> NDArray[np.int8]:
    weights = rng.integers(-127, 128, shape).astype(np.int8)
    kept = rng.random((*shape[:-1], -(-shape[-1] // block))) >= zeros
    return (weights * np.repeat(kept, block, axis=-1)[..., : shape[-1]]).astype(np.int8)


def stored(value: Encoded, element: UniformType | None = None) -> SSAValue:
    return ConstantOp(value, TensorType(element or f32, value.shape)).result


SHAPES = [
    # input, weights, padding, strides, dilations
    ((1, 9, 11, 8), (5, 3, 3, 8), (1, 1, 1, 1), (1, 1), (1, 1)),
    ((2, 13, 10, 3), (33, 5, 4, 3), (2, 1, 0, 3), (2, 3), (1, 1)),
    ((1, 7, 40, 6), (30, 1, 1, 6), (0, 0, 0, 0), (2, 2), (1, 1)),
    ((1, 12, 9, 4), (6, 3, 2, 4), (2, 0, 2, 1), (2, 1), (2, 3)),
    ((1, 30, 26, 3), (8, 11, 11, 3), (0, 0, 0, 0), (4, 4), (1, 1)),
]


@pytest.mark.parametrize("flags", [("-O1",), NATIVE], ids=["portable", "native"])
@pytest.mark.parametrize("shape", first_fast(2, SHAPES))
@pytest.mark.parametrize("zeros", first_fast(1, [0.95, 0.5, 1.0]))
def test_convolutions_of_bytes(
    shape: tuple[tuple[int, ...], ...], zeros: float, flags: tuple[str, ...]
):
    size, window, padding, strides, dilations = shape
    rng = np.random.default_rng(window[0])
    # 33 filters have packed values of 4 bits.
    weights = sparse_weights(rng, window, zeros) >> (4 if window[0] == 33 else 0)
    bias = rng.integers(-3000, 3000, window[0]).astype(np.int32)
    x_element = UniformType(0.5, 3)

    def build(x: SSAValue) -> list[SSAValue]:
        b = ConstantOp.from_array(bias, UniformType(0.125, storage=i32)).result
        op = Conv2dOp(
            x, stored(CooAttr.of(weights, i8, 5), UniformType(0.25)), b,
            result_element=UniformType(1.0), strides=strides, padding=padding,
            dilations=dilations, requant=RequantAttr(7),
        )  # fmt: skip
        return [op.result]

    module = make_network([(x_element, size)], build)
    check(module, random_inputs(module), flags=flags)


def relu_layer(x: SSAValue, weights: NDArray[np.float32], *, ordered: bool) -> SSAValue:
    """Return a float convolution with sparse weights, bias and activation."""
    b = ConstantOp.from_array(np.linspace(-1, 1, len(weights)).astype(np.float32)).result
    op = Conv2dOp(
        x, stored(CooAttr.of(weights, f32, 6)), b, result_element=f32, padding=(1, 1, 1, 1),
        activation=FunctionAttr(Function.RELU),
    )  # fmt: skip
    if ordered:
        op.properties["ordered"] = UnitAttr()
    return op.result


@pytest.mark.parametrize("flags", [("-O1",), NATIVE], ids=["portable", "native"])
def test_ordered_floats_are_the_same_to_the_bit(flags: tuple[str, ...]):
    rng = np.random.default_rng(3)
    weights = (sparse_weights(rng, (31, 3, 3, 7), 0.9) / 37).astype(np.float32)
    module = make_network([(f32, (1, 9, 20, 7))], lambda x: [relu_layer(x, weights, ordered=True)])
    check(module, random_inputs(module), flags=flags)


@pytest.mark.parametrize("flags", [("-O1",), NATIVE], ids=["portable", "native"])
def test_floats_in_any_order(flags: tuple[str, ...]):
    rng = np.random.default_rng(4)
    weights = (sparse_weights(rng, (40, 3, 3, 5), 0.8) / 37).astype(np.float32)
    module = make_network([(f32, (2, 11, 9, 5))], lambda x: [relu_layer(x, weights, ordered=False)])
    check(module, random_inputs(module), flags=flags, tolerance=1e-4)


def test_infinities_meet_only_what_is_stored():
    weights = np.zeros((4, 3, 3, 2), np.float32)
    weights[:, 1, 1, 0] = 1
    x = np.full((1, 8, 8, 2), np.inf, np.float32)
    for ordered in (True, False):
        module = make_network(
            [(f32, x.shape)], lambda v, o=ordered: [relu_layer(v, weights, ordered=o)]
        )
        got = check(module, {"input0": x}, flags=NATIVE)["output0"]
        assert np.isposinf(np.asarray(got, np.float32)).all()


@pytest.mark.parametrize("flags", [("-O1",), NATIVE], ids=["portable", "native"])
@pytest.mark.parametrize("kind", first_fast(1, ["block", "bitmap", "csr", "fields"]))
def test_every_encoding_with_a_residual_and_a_multiplier_for_each_output(
    kind: str, flags: tuple[str, ...]
):
    rng = np.random.default_rng(5)
    weights = sparse_weights(rng, (12, 3, 3, 8), 0.9, block=4)
    encoded = {
        "block": SparseBlockAttr.of(weights, i8, (1, 4), 4),
        "bitmap": BitmapAttr.of(weights, i8),
        "csr": CsrAttr.of(weights, i8),
        "fields": CooAttr.of(weights, i8),
    }[kind]
    scales = UniformType([0.25] * 12, storage=i8, axis=0)

    def build(x: SSAValue, skip: SSAValue) -> list[SSAValue]:
        w = ConstantOp(encoded, TensorType(scales, encoded.shape)).result
        requant = RequantAttr(20, multiplier=list(range(1000, 7000, 500)))
        op = Conv2dOp(
            x, w, None, skip, result_element=UniformType(1.0), padding=(1, 1, 1, 1),
            requant=requant, residual_shift=4,
        )  # fmt: skip
        return [op.result]

    element = UniformType(0.5)
    module = make_network([(element, (1, 9, 10, 8)), (UniformType(2.0), (1, 9, 10, 12))], build)
    check(module, random_inputs(module), flags=flags)


def test_rows_of_a_product_and_strips_of_a_map():
    rng = np.random.default_rng(6)
    weights = sparse_weights(rng, (20, 36), 0.9)

    def build(x: SSAValue) -> list[SSAValue]:
        w = stored(CooAttr.of(weights, i8, 4), UniformType(0.25))
        return [MatmulOp(x, w, result_element=UniformType(1.0), requant=RequantAttr(6)).result]

    module = make_network([(UniformType(0.5), (70, 36))], build)
    for workspace in (COptions.workspace, 5000):
        check(module, random_inputs(module), flags=NATIVE, options=COptions(workspace=workspace))


def test_layers_too_large_for_code_have_the_bias_of_their_loops(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(linear_sparse, "MAX_CODE_PRODUCTS", 0)
    rng = np.random.default_rng(8)
    weights = sparse_weights(rng, (6, 3, 3, 5), 0.8)

    def build(x: SSAValue) -> list[SSAValue]:
        w = stored(CooAttr.of(weights, i8, 4), UniformType(0.25))
        return [Conv2dOp(x, w, result_element=UniformType(1.0), requant=RequantAttr(7)).result]

    module = make_network([(UniformType(0.5, 3), (1, 10, 11, 5))], build)
    check(module, random_inputs(module), flags=NATIVE)


@needs_arm
@pytest.mark.parametrize("zeros", first_fast(1, [0.9, 0.5, 1.0]))
def test_cores_with_pairs_compute_the_same(tmp_path: Path, zeros: float):
    rng = np.random.default_rng(7)
    weights = sparse_weights(rng, (6, 3, 3, 5), zeros)

    def build(x: SSAValue) -> list[SSAValue]:
        w = stored(CooAttr.of(weights, i8, 4), UniformType(0.25))
        op = Conv2dOp(
            x, w, result_element=UniformType(1.0), padding=(1, 1, 1, 1), requant=RequantAttr(7)
        )
        return [op.result]

    module = make_network([(UniformType(0.5), (1, 10, 11, 5))], build)
    options = COptions(vectors=False, dsp=True, workspace=1500)
    inputs = random_inputs(module)
    expected = check(module, inputs, options=options)
    main = main_function(module)
    (tmp_path / "model").mkdir()
    files = [a for a in emit(module, options) if a.path.startswith("model")]
    sources = write_files(files, tmp_path / "model")
    ends = network_inputs(main), network_outputs(main)
    model = EmulatedModel(sources, *ends, load_board("nano_33_ble"), tmp_path, flags=("-Os",))
    (got,) = model.run([inputs])
    np.testing.assert_array_equal(got["output0"], expected["output0"])


@pytest.mark.parametrize("is_float", [False, True], ids=["bytes", "floats"])
@pytest.mark.parametrize("most", [1 << 18, 20_000], ids=["maps", "strips"])
@pytest.mark.parametrize("shape", SHAPES)
def test_code_loads_nothing_behind_the_planes(
    shape: tuple[tuple[int, ...], ...], most: int, is_float: bool
):
    """Sanitizers do not check assembler."""
    size, window, padding, strides, dilations = shape
    item, unit = (4, 1) if is_float else (1, 4)
    weights = np.ones(window, np.float32 if is_float else np.int8)

    def build(x: SSAValue) -> list[SSAValue]:
        op = Conv2dOp(
            x, constant(weights, f32 if is_float else UniformType(0.25)),
            result_element=f32 if is_float else UniformType(1.0), strides=strides,
            padding=padding, dilations=dilations, requant=None if is_float else RequantAttr(7),
        )  # fmt: skip
        return [op.result]

    module = make_network([(f32 if is_float else UniformType(0.5), size)], build)
    op = next(op for op in module.walk() if isinstance(op, Conv2dOp))
    planes = Planes.of(op, Geometry.of(op), item, most)
    assert planes is not None
    last = (planes.positions - 1) // 16 * 16
    furthest = max(p.offset for p in products(weights, planes))
    assert furthest + unit * last * item + 64 <= planes.elements * item


def test_channels_with_weights_together_share_words():
    rng = np.random.default_rng(0)
    # Each of 128 channels has a partner within 16 channels, and a second pair within 64.
    kept = rng.random((200, 32)) < 0.1
    pairs = np.concatenate([64 * half + 16 * lane + np.array([[2, 9], [0, 15], [1, 4]])
                            for half in range(2) for lane in range(4)])  # fmt: skip
    nonzero = np.zeros((200, 128), bool)
    for i, (a, b) in enumerate(pairs):
        nonzero[:, a] = nonzero[:, b] = kept[:, i]
    order = clustered(nonzero)
    assert sorted(order) == list(range(128))
    together = {tuple(sorted(pair)) for pair in order.reshape(-1, 2).tolist()}
    assert {tuple(pair) for pair in pairs.tolist()} <= together

    def words(columns: NDArray[np.bool_]) -> int:
        return int(columns.reshape(200, -1, 4).any(axis=2).sum())

    assert words(nonzero[:, order]) < 0.7 * words(nonzero)


def test_listed_weights_where_no_kernel_is_sparse():
    """A recurrent layer uses the dense weights."""
    rng = np.random.default_rng(0)
    weights = sparse_weights(rng, (4 * 3, 3), 0.5).astype(np.float32) / 64
    functions = [FunctionAttr(f) for f in (Function.SIGMOID, Function.TANH, Function.TANH)]

    def build(x: SSAValue, h: SSAValue):
        w = stored(CooAttr.of(weights, f32))
        cell = RecurrenceOp(Cell.LSTM, x, w, h, functions, cell=h)
        return [cell.result]

    check(make_network([(f32, (4, 2, 12)), (f32, (2, 3))], build))
