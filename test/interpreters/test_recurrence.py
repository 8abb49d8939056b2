"""Compare recurrent layers with ONNX Runtime, and in C with the interpreter."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from c_harness import SANITIZE, check, check_elsewhere, constant, make_network, needs_aarch64
from cross import AARCH64
from onnx import TensorProto, helper, numpy_helper
from onnx_compare import agree
from slow_cases import first_fast
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr, f32, i8
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from ceras_ir.data.sample_stream import synthetic_samples
from ceras_ir.dialects.graph import (
    Cell,
    ConstantOp,
    Function,
    FunctionAttr,
    MatmulOp,
    RecurrenceOp,
    constant_array,
)
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import input_names, main_function
from ceras_ir.support.diagnostics import InputError, UnsupportedError
from ceras_ir.transforms.quantization.quantize_graph import RecurrenceRule

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
T, B, N, H = 5, 2, 3, 6


def recurrent(
    kind: str,
    direction: str = "forward",
    *,
    starts: bool = False,
    bias: bool = True,
    hidden: int = H,
    batch: int = B,
    **attributes: int | str | float | list[str] | list[float],
) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    d, g = 2 if direction == "bidirectional" else 1, GATES[kind]
    tensors = {
        "w": rng.uniform(-1, 1, (d, g * hidden, N)),
        "r": rng.uniform(-1, 1, (d, g * hidden, hidden)),
        "b": rng.uniform(-1, 1, (d, 2 * g * hidden)),
    }
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [T, batch, N])]
    names = ["x", "w", "r", "b" if bias else ""]
    states = ["h0", "c0"] if kind == "LSTM" else ["h0"]
    if starts:
        names += ["", *states]
        shape = [d, batch, hidden]
        inputs += [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in states]
    results = ["y", "yh", "yc"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(kind, names, results, "rec", direction=direction, hidden_size=hidden)
    node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
    shapes = {"y": [T, d, batch, hidden], "yh": [d, batch, hidden], "yc": [d, batch, hidden]}
    graph = helper.make_graph(
        [node],
        "g",
        inputs,
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes[n]) for n in results],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in tensors.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    proto.ir_version = 8
    return proto


MODELS = {
    "rnn": recurrent("RNN"),
    "rnn of relu": recurrent("RNN", activations=["Relu"]),
    "gru as pytorch has it": recurrent("GRU", linear_before_reset=1, starts=True),
    "gru as onnx has it": recurrent("GRU", "reverse"),
    "gru without bias": recurrent("GRU", "bidirectional", bias=False),
    "lstm": recurrent("LSTM", starts=True),
    "lstm both ways": recurrent("LSTM", "bidirectional"),
    "lstm of other functions": recurrent("LSTM", activations=["HardSigmoid", "Softsign", "Tanh"]),
    "lstm of relu": recurrent("LSTM", activations=["Sigmoid", "Relu", "Relu"]),
    "lstm of leaky relu": recurrent("LSTM", activations=["Sigmoid", "Tanh", "LeakyRelu"]),
    "lstm of several panels": recurrent("LSTM", hidden=75),
    "gru of several panels": recurrent("GRU", hidden=50, linear_before_reset=1),
    "gru as onnx has it, of several panels": recurrent("GRU", hidden=74),
    "gru as in onnx, not a multiple of a vector": recurrent("GRU", hidden=10),
}
PANELS = [name for name in MODELS if "panels" in name or "vector" in name]
"""The outputs do not fill the last panel, or the last vector."""


@pytest.mark.parametrize("name", MODELS)
def test_as_onnx_runtime(name: str) -> None:
    steps = [op for op in agree(MODELS[name]).walk() if isinstance(op, RecurrenceOp)]
    assert len(steps) == (2 if "both" in name or "without" in name else 1)


def ordered(name: str) -> ModuleOp:
    """The products of the input have another order, unless the layer is ordered."""
    module = import_model(MODELS[name])
    for op in module.walk():
        if isinstance(op, MatmulOp):
            op.properties["ordered"] = UnitAttr()
    return module


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_c_is_exact(name: str) -> None:
    check(ordered(name), flags=SANITIZE)
    check(ordered(name), flags=("-O3", "-march=native"))


@pytest.mark.sample(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", PANELS)
@pytest.mark.parametrize("flags", [("-mavx2", "-mfma"), ("-march=native", "-DMODEL_LANES=0")])
def test_c_is_exact_with_other_vectors(name: str, flags: tuple[str, ...]) -> None:
    check(ordered(name), flags=("-O3", *flags))


@needs_aarch64
@pytest.mark.slow
@pytest.mark.parametrize("name", PANELS)
def test_neon_is_exact(name: str, tmp_path: Path) -> None:
    check_elsewhere(ordered(name), AARCH64, AARCH64.builds["neon"], tmp_path, tolerance=0)


def test_layers_are_calls() -> None:
    """gcc 12.2 at -O2 computes cell states from old gates if it inlines a layer of two units."""
    module = import_model(recurrent("LSTM", hidden=2, batch=1, starts=True))
    for op in module.walk():
        if isinstance(op, MatmulOp):
            op.properties["ordered"] = UnitAttr()
    check(module, flags=("-O2",))


IN_INTEGERS = [name for name in MODELS if "relu" not in name]


def in_integers(name: str) -> ModuleOp:
    module = import_model(MODELS[name])
    RecurrenceRule().apply(Context(), module)
    module.verify()
    assert all(op.exponents for op in module.walk() if isinstance(op, RecurrenceOp))
    return module


@pytest.mark.parametrize("name", IN_INTEGERS)
def test_integers_are_near(name: str) -> None:
    """Only the state is rounded, to 2^-14, compared with a float layer of equal weights."""
    module, real = in_integers(name), in_integers(name)
    for op in list(real.walk()):
        if not isinstance(op, RecurrenceOp) or op.exponents is None:
            continue
        stored = constant_array(op.weights)
        assert stored is not None
        weights = stored * np.exp2(np.array(op.exponents[1], np.float32))[:, None]
        constant = ConstantOp.from_array(weights.astype(np.float32), f32)
        same = RecurrenceOp(
            op.cell_kind,
            op.input,
            constant.result,
            op.state,
            op.functions.data,
            cell=op.cell,
            bias=op.bias,
        )
        Rewriter.replace_op(op, [constant, same], [same.result])
    (sample,) = synthetic_samples(main_function(module), 1, 1)
    expected = run(real, sample)
    for key, found in run(module, sample).items():
        assert np.allclose(found.astype(float), expected[key].astype(float), rtol=0, atol=2e-3)


@pytest.mark.sample(5)
@pytest.mark.slow
@pytest.mark.parametrize("name", IN_INTEGERS)
def test_integers_in_c_are_exact(name: str) -> None:
    module = in_integers(name)
    for op in module.walk():
        if isinstance(op, MatmulOp):
            op.properties["ordered"] = UnitAttr()
    check(module, flags=SANITIZE)
    check(module, flags=(*SANITIZE, "-march=native"))
    check(module, flags=("-O3", "-march=native"))
    check(module, flags=(*SANITIZE, "-mavx2"))


def dynamic(
    hidden: int, batch: int = 1, *, channels: bool = True, zero_point: int = 0, relu: bool = False
) -> ModuleOp:
    """An LSTM of 8-bit weights, in which each step quantizes the state dynamically."""
    width, rng = 4 * hidden, np.random.default_rng(0)
    limit = 1.5 / hidden**0.5 / 128
    scales = rng.uniform(limit / 2, limit, width if channels else 1).astype(np.float32)
    names = [Function.RELU] * 3 if relu else [Function.SIGMOID, Function.TANH, Function.TANH]

    def build(x: SSAValue, h: SSAValue, c: SSAValue) -> list[SSAValue]:
        weights = constant(rng.integers(-128, 128, (width, hidden)).astype(np.int8), i8)
        functions = [FunctionAttr(name) for name in names]
        integers = (scales.tolist(), zero_point)
        return [RecurrenceOp(Cell.LSTM, x, weights, h, functions, cell=c, scales=integers).result]

    shapes = ((T, batch, width), (batch, hidden), (batch, hidden))
    return make_network([(f32, shape) for shape in shapes], build)


DYNAMIC = {
    "of one unit": lambda: dynamic(1, 2),
    "of one scale": lambda: dynamic(6, 3, channels=False, zero_point=-128),
    "of several panels": lambda: dynamic(75, 2, zero_point=11),
    "of whole panels": lambda: dynamic(64),
    "of a batch": lambda: dynamic(34, 7, channels=False, zero_point=-5),
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("flags", [SANITIZE, ("-O3", "-march=native"), ("-O3", "-mavx2")])
@pytest.mark.parametrize("name", first_fast(1, DYNAMIC))
def test_dynamic_scales_in_c_are_exact(name: str, flags: tuple[str, ...]) -> None:
    check(DYNAMIC[name](), flags=flags)


@needs_aarch64
@pytest.mark.slow
@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_scales_on_neon_are_exact(name: str, tmp_path: Path) -> None:
    check_elsewhere(DYNAMIC[name](), AARCH64, AARCH64.builds["neon"], tmp_path, tolerance=0)


@pytest.mark.parametrize(
    "state",
    [
        [np.nan, 1, -2, 0.5, 0, 3],
        [np.inf, 1, -2, np.nan, 0, 3],
        [-np.inf, np.inf, 0, -0.0, 1, 2],
        [3e38, -3e38, 1e38, 0, 1, -1],
        [1e-45, 0, -1e-45, 0, 0, 0],
        [-0.0] * 6,
        [1e-40, 2e-40, -1e-40, 0, 1e-42, 0],
        [255, 0.5, 1.5, 2.5, 253.5, 254.5],
        [-101.5, 153.5, -100.5, 0.5, 1.5, -0.5],
    ],
)
@pytest.mark.parametrize("relu", first_fast(1, (False, True)))
@pytest.mark.parametrize("flags", [SANITIZE, (*SANITIZE, "-march=native")])
def test_states_beyond_all_bounds(state: list[float], relu: bool, flags: tuple[str, ...]) -> None:
    module = dynamic(6, zero_point=3, relu=relu)
    names = input_names(main_function(module))
    x = np.random.default_rng(2).normal(0, 1, (T, 1, 24)).astype(np.float32)
    cell = np.ones((1, 6), np.float32)
    inputs = dict(zip(names, (x, np.array([state], np.float32), cell), strict=True))
    with np.errstate(all="ignore"):
        check(module, inputs, flags=flags)


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (recurrent("RNN", clip=1.0), "'clip' is given"),
        (recurrent("RNN", activations=["Affine"]), "got 'Affine'"),
    ],
)
def test_refusals(proto: onnx.ModelProto, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        import_model(proto)


def test_wrong_shapes() -> None:
    proto = recurrent("LSTM")
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros((1, 7, 3), "f4"), "w"))
    with pytest.raises(InputError, match=r"W of shape \[1, 7, 3\], expected \[1, 24, 3\]"):
        import_model(proto)


def of_lengths(kind: str, direction: str = "forward") -> onnx.ModelProto:
    """Build a layer with the lengths of sequences as an input, and without the last cells."""
    proto = recurrent(kind, direction)
    (node,) = proto.graph.node
    node.input.append("lengths")
    proto.graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, [B]))
    if kind == "LSTM":
        del node.output[2:], proto.graph.output[2:]
    return proto


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lengths_of_sequences(kind: str, direction: str) -> None:
    """Exporters write packed sequences this way; a sequence without elements is removed."""
    proto = of_lengths(kind, direction)
    x = np.random.default_rng(1).uniform(-2, 2, (T, B, N)).astype(np.float32)
    for lengths in ([T, T - 2], [1, 0], [T, T]):
        agree(proto, {"x": x, "lengths": np.array(lengths, np.int32)})


def test_lengths_that_are_fixed() -> None:
    proto = of_lengths("GRU")
    fixed = import_model(proto, values={"lengths": [T] * B})
    assert sum(isinstance(op, RecurrenceOp) for op in fixed.walk()) == 1
    assert "graph.select" in str(import_model(proto)) and "graph.select" not in str(fixed)
