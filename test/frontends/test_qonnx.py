"""
Compare the quantizers of QONNX with formulas from its documentation, for 1 to 32 bits, and the same
networks in QONNX and in ONNX's Q/DQ with Clip, as Brevitas writes both.

If `qonnx` is installed, its execution of the networks is compared, too.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from c_harness import check
from called import call
from onnx import TensorProto, helper, numpy_helper
from onnx_models import Array, model, node, run_onnxruntime

from ceras_ir.backends.onnx.export import export_model
from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.verify.tool import main as verify_main
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.targets.registry import find_target

DOMAIN = "qonnx.custom_op.general"

MODES: dict[str, Callable[[Array], Array]] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "half_up": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - 0.5),
    "CEIL": np.ceil,
    "floor": np.floor,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "DOWN": np.fix,
    "ROUND_TO_ZERO": np.fix,
}


def levels(bits: int, *, signed: int, narrow: int) -> tuple[int, int]:
    if signed:
        return -(2 ** (bits - 1)) + narrow, 2 ** (bits - 1) - 1
    return 0, 2**bits - 1 - narrow


def quant(
    x: Array,
    scale: Array | float,
    point: Array | float,
    bits: int,
    mode: str,
    *,
    signed: int,
    narrow: int,
) -> Array:
    """Return the result of Quant. All elements are exact in the tests."""
    low, high = levels(bits, signed=signed, narrow=narrow)
    y = np.clip(x.astype(np.float64) / scale + point, low, high)
    return (MODES[mode](y) - point) * scale


def quantizer(inputs: str, output: str, kind: str = "Quant", **attributes: int | str):
    required = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"}
    made = node(kind, inputs, output, **((required if kind == "Quant" else {}) | attributes))
    made.domain = DOMAIN
    return made


def network(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int], constants: Mapping[str, npt.ArrayLike]
) -> onnx.ModelProto:
    return model(nodes, {"x": shape}, ["y"], constants, infer=False, domains={DOMAIN: 2})


def steps(shape: Sequence[int], scale: Array, seed: int = 0) -> Array:
    """Return multiples of a quarter of the scale, which include ties and exceed the range."""
    quarters = np.random.default_rng(seed).integers(-90, 91, shape)
    quarters.flat[0] = 0
    return (quarters * scale / 4).astype(np.float32)


SCALES = {
    "tensor": np.array(0.25, np.float32),
    "channel": np.array([0.25, 0.5, 2.0, 1.0], np.float32).reshape(4, 1, 1),
    "equal": np.full((1, 4, 1, 1), 0.5, np.float32),
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("bits", "signed"),
    [(1, 0), (2, 0), (2, 1), (3, 1), (4, 0), (4, 1), (7, 1), (8, 0), (12, 1), (16, 0), (24, 1)],
)
def test_constants_keep_integers_of_the_bits(bits: int, signed: int, scale: str):
    for narrow, mode in product((0, 1) if bits > 1 else (0,), MODES):
        factor, point = SCALES[scale], np.array(1 - narrow, np.float32)
        w = steps((2, 4, 3, 1), factor)
        nodes = [
            quantizer("w s z b", "q", signed=signed, narrow=narrow, rounding_mode=mode),
            node("Add", "x q", "y"),
        ]
        width = np.array([bits], np.int32) if narrow else np.array(bits, np.float32)
        constants = {"w": w, "s": factor, "z": point, "b": width}
        module = import_model(network(nodes, w.shape, constants))
        expected = quant(w, factor, point, bits, mode, signed=signed, narrow=narrow)
        result = run(module, {"x": np.zeros(w.shape, np.float32)})["y"]
        np.testing.assert_array_equal(result, expected.astype(np.float32))
        stored = next(size for size in (*range(9), 16, 32) if bits <= size)
        assert f"!quant.uniform<{'i' if signed else 'u'}{stored}:f32" in str(module)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("bits", "signed"), [(1, 0), (2, 1), (3, 0), (4, 1), (8, 0), (8, 1), (12, 1), (16, 0)]
)
def test_computed_values(bits: int, signed: int, scale: str):
    factor, shape = SCALES[scale], (2, 4, 5, 3)
    modes = ("ROUND", "HALF_EVEN", "half_up", "CEIL", "floor")
    for narrow, mode in product((0, 1) if bits > 1 else (0,), modes):
        point = np.array(0 if mode == "half_up" or bits < 3 else 2, np.float32)
        nodes = [
            quantizer("x s z b", "y", signed=signed, narrow=narrow, rounding_mode=mode),
        ]
        constants = {"s": factor, "z": point, "b": np.array(bits, np.float32)}
        x = steps(shape, factor, bits)
        module = import_model(network(nodes, shape, constants))
        expected = quant(x, factor, point, bits, mode, signed=signed, narrow=narrow)
        np.testing.assert_array_equal(run(module, {"x": x})["y"], expected.astype(np.float32))
        stored = bits if bits <= 8 else 16
        assert f"!quant.uniform<{'i' if signed else 'u'}{stored}:f32" in str(module)
        if mode == "half_up":  # Target nnet rounds between Q/DQ.
            continue
        copy, options = module.clone(), BuildOptions(find_target("nnet")(), quantize="int8")
        run_stages(load_context(), copy, front_stages(options))
        np.testing.assert_array_equal(run(copy, {"x": x})["y"], expected.astype(np.float32))
        assert f"{max(stored, 8)}:f32" in str(copy)


@pytest.mark.parametrize("scale", SCALES)
def test_bipolar_quant(scale: str):
    factor, shape = SCALES[scale], (2, 4, 5, 3)
    x = steps(shape, factor)
    x.flat[1:3] = np.float32(-1e-45), -0.0  # A quotient of the first can be -0.
    expected = np.where(x >= 0, factor, -factor)
    computed = import_model(network([quantizer("x s", "y", "BipolarQuant")], shape, {"s": factor}))
    assert "!quant.uniform<i1:f32" in str(computed)
    np.testing.assert_array_equal(run(computed, {"x": x})["y"], expected)
    for target in ("c", "nnet"):
        copy, options = computed.clone(), BuildOptions(find_target(target)(), quantize="int8")
        run_stages(load_context(), copy, front_stages(options))
        np.testing.assert_array_equal(run(copy, {"x": x})["y"], expected)
        if target == "c":
            check(copy, {"x": x})
    nodes = [quantizer("w s", "q", "BipolarQuant"), node("Add", "x q", "y")]
    module = import_model(network(nodes, shape, {"w": x, "s": factor}))
    assert "!quant.uniform<i1:f32" in str(module)
    zeros = np.zeros(shape, np.float32)
    np.testing.assert_array_equal(run(module, {"x": zeros})["y"], expected)


@pytest.mark.parametrize("mode", ["ROUND", "CEIL", "floor"])
@pytest.mark.parametrize(("before", "after"), [(10, 4), (9, 7), (16, 8), (6, 6)])
@pytest.mark.parametrize("point", [0, 16])
def test_trunc(before: int, after: int, mode: str, point: int):
    scale, drop = np.float32(0.125), before - after
    q = np.random.default_rng(after).integers(-(1 << before - 1), 1 << before - 1, (3, 50))
    x = ((q - point) * scale).astype(np.float32)
    numbers = {"s": scale, "z": np.float32(point), "i": np.float32(before)}
    rounded = MODES[mode](q / 2**drop)
    if point <= 1 << after - 1:
        first = {**numbers, "o": np.array(after, np.int32)}
        nodes = [quantizer("x s z i o", "y", "Trunc", rounding_mode=mode)]
        result = run(import_model(network(nodes, x.shape, first)), {"x": x})["y"]
        np.testing.assert_array_equal(result, ((rounded - point) * scale).astype(np.float32))
    if point % 2**drop == 0 and point >> drop < 1 << after - 1:
        second = {**numbers, "t": scale * np.float32(2**drop), "o": np.float32(after)}
        nodes = [quantizer("x s z i t o", "y", "Trunc", rounding_mode=mode, narrow=1)]
        result = run(import_model(network(nodes, x.shape, second)), {"x": x})["y"]
        clamped = np.clip(rounded, *levels(after, signed=1, narrow=1))
        expected = (clamped - point / 2**drop) * second["t"]
        np.testing.assert_array_equal(result, expected.astype(np.float32))


def pair(bits: int, *, per_channel: bool, seed: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """
    Return a network of two layers in QONNX, and as Brevitas exports it with QuantizeLinear, Clip
    and DequantizeLinear.
    """
    rng = np.random.default_rng(seed)
    low, high = levels(bits, signed=1, narrow=1)
    top = levels(bits, signed=0, narrow=0)[1]
    constants: dict[str, Array] = {
        "f0": np.array(0, np.float32),
        "f8": np.array(8, np.float32),
        "f16": np.array(16, np.float32),
        "f32": np.array(32, np.float32),
        "fb": np.array(bits, np.float32),
        "i0": np.array(0, np.int8),
        "u0": np.array(0, np.uint8),
        "n0": np.array(0, np.int32),
        "low": np.array(low, np.int8),
        "high": np.array(high, np.int8),
        "top": np.array(top, np.uint8),
        "xs": np.array(1 / 64, np.float32),
        "as": np.array(3.7 / top, np.float32),
        "ys": np.array(0.07, np.float32),
    }
    narrowed: list[onnx.NodeProto] = [
        quantizer("x xs f0 f8", "xd"),
        quantizer("c1 as f0 fb", "ad", signed=0),
        quantizer("c2 ys f0 f8", "y"),
    ]
    standard = [
        *(node("QuantizeLinear", "x xs i0", "xq"), node("DequantizeLinear", "xq xs i0", "xd")),
        *(node("QuantizeLinear", "c1 as u0", "aq"), node("Clip", "aq u0 top", "ac")),
        node("DequantizeLinear", "ac as u0", "ad"),
        *(node("QuantizeLinear", "c2 ys i0", "yq"), node("DequantizeLinear", "yq ys i0", "y")),
    ]
    for i, (shape, x_scale) in enumerate((((6, 3, 3, 3), "xs"), ((5, 6, 1, 1), "as")), 1):
        scale = rng.uniform(0.3, 0.6, (shape[0], 1, 1, 1) if per_channel else ()) / high
        scale = np.asarray(scale).astype(np.float32)
        integers = rng.integers(low, high + 1, shape).astype(np.int8)
        factors = (scale * constants[x_scale]).astype(np.float32).reshape(-1)
        bias = np.rint(rng.uniform(-2, 2, shape[0]) / factors).astype(np.int32)
        constants |= {
            f"w{i}": integers * scale,
            f"s{i}": scale,
            f"q{i}": integers,
            f"v{i}": scale.reshape(-1) if per_channel else scale,
            f"p{i}": bias,
            f"b{i}": (bias * factors).astype(np.float32),
            f"t{i}": factors,
            f"z{i}": np.zeros(scale.size if per_channel else (), np.int8),
            f"m{i}": np.zeros(scale.size if per_channel else (), np.int32),
            f"r{i}": factors if per_channel else factors.reshape(()),
        }
        source, result = (("xd", "c1"), ("ad", "c2"))[i - 1]
        layer = node("Conv", f"{source} wd{i} bd{i}", result)
        narrowed += [
            quantizer(f"w{i} s{i} f0 fb", f"wd{i}", narrow=1),
            quantizer(f"b{i} t{i} f0 {'f32' if i == 1 else 'f16'}", f"bd{i}"),
            layer,
        ]
        standard += [
            node("Clip", f"q{i} low high", f"wc{i}"),
            node("DequantizeLinear", f"wc{i} v{i} z{i}", f"wd{i}", axis=0),
            node("DequantizeLinear", f"p{i} r{i} m{i}", f"bd{i}", axis=0),
            layer,
        ]
    used = [[name for n in nodes for name in n.input] for nodes in (narrowed, standard)]
    first, second = (
        model(
            _ordered(nodes),
            {"x": (1, 3, 9, 9)},
            ["y"],
            {name: constants[name] for name in dict.fromkeys(names) if name in constants},
            infer=False,
            domains=domains,
        )
        for nodes, names, domains in (
            (narrowed, used[0], {DOMAIN: 1}),
            (standard, used[1], {}),
        )
    )
    second.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 5, 7, 7))
    )
    first.graph.output[0].CopyFrom(second.graph.output[0])
    return first, second


def _ordered(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return `nodes` after the nodes that compute their operands."""
    waiting, found = list(nodes), list[onnx.NodeProto]()
    while waiting:
        pending = {n.output[0] for n in waiting}
        ready = [n for n in waiting if not pending.intersection(n.input)]
        found += ready
        waiting = [n for n in waiting if n not in ready]
    return found


@pytest.mark.parametrize(
    ("bits", "per_channel"), [(2, False), (3, True), (4, False), (4, True), (6, False), (7, True)]
)
def test_networks_equal_those_with_clips(bits: int, per_channel: bool):
    first, second = pair(bits, per_channel=per_channel, seed=bits)
    x = np.random.default_rng(bits).normal(size=(1, 3, 9, 9)).astype(np.float32)
    (expected,) = run_onnxruntime(second, {"x": x}).values()
    assert len(np.unique(expected)) > 10
    results: list[Array] = []
    for proto in (first, second):
        module = import_model(proto)
        np.testing.assert_array_equal(run(module, {"x": x})["y"], expected)
        assert str(module).count(f"x!quant.uniform<i{bits}:") == 4
        for target in ("interp", "c"):
            copy, options = module.clone(), BuildOptions(find_target(target)(), quantize="int8")
            run_stages(load_context(), copy, front_stages(options))
            results.append(run(copy, {"x": x})["y"])
            assert str(copy).count("graph.conv2d") == str(copy).count("requant =") == 2
            assert f"low = {-(2 ** (bits - 1))}, high = {2 ** (bits - 1) - 1}>" in str(copy)
        check(copy, {"x": x})
    for result in results:
        np.testing.assert_array_equal(result, results[0])
        assert np.abs(result - expected).max() <= 0.07 * 1.001


def test_clips_of_constants_keep_zero_points_and_wide_bounds():
    """The types keep 8 bits if the bits of the bounds do not hold the zero point."""
    for bounds, point, stored in (
        ((-8, 7), 0, "i4"),
        ((-8, 7), 9, "i8"),
        ((-9, 7), 0, "i5"),
        ((0, 1), 0, "i2"),
        ((-128, 100), 0, "i8"),
    ):
        nodes = [
            node("Clip", "w l h", "c"),
            node("DequantizeLinear", "c s z", "d"),
            node("Add", "x d", "y"),
        ]
        w = np.arange(-10, 10, dtype=np.int8)
        constants = {"w": w, "l": np.int8(bounds[0]), "h": np.int8(bounds[1])}
        constants |= {"s": np.float32(0.5), "z": np.int8(point)}
        module = import_model(model(nodes, {"x": (20,)}, ["y"], constants))
        result = run(module, {"x": np.zeros(20, np.float32)})["y"]
        np.testing.assert_array_equal(result, (np.clip(w, *bounds) - point) * np.float32(0.5))
        assert f"!quant.uniform<{stored}:" in str(module)


def test_several_quantizers_of_a_value():
    """Relu, an unsigned Quant, a coarser Quant, and another domain."""
    nodes = [
        node("Relu", "x", "r"),
        quantizer("r s z b", "a", "IntQuant", signed=0),
        quantizer("a t z c", "y"),
    ]
    nodes[1].domain = "onnx.brevitas"
    constants: dict[str, npt.ArrayLike] = {
        "s": np.float32(0.25),
        "t": np.float32(0.5),
        "z": np.float32(0),
    }
    constants |= {"b": np.float32(5), "c": np.float32(3)}
    proto = model(
        nodes,
        {"x": (4, 9)},
        ["y"],
        constants,
        infer=False,
        domains={DOMAIN: 1, "onnx.brevitas": 1},
    )
    x = steps((4, 9), np.array(0.25))
    module = import_model(proto)
    inner = quant(np.maximum(x, 0), 0.25, 0, 5, "ROUND", signed=0, narrow=0)
    expected = quant(inner, 0.5, 0, 3, "ROUND", signed=1, narrow=0)
    np.testing.assert_array_equal(run(module, {"x": x})["y"], expected)


@pytest.mark.parametrize("kind", ["Quant", "DequantizeLinear"])
def test_branches_have_constants_of_equal_names(kind: str):
    def branch(name: str, numbers: Sequence[int]) -> onnx.GraphProto:
        stored = np.array(numbers, np.float32 if kind == "Quant" else np.int8)
        made = quantizer("w s z b", "q") if kind == "Quant" else node(kind, "w s", "q")
        output = helper.make_tensor_value_info(name, TensorProto.FLOAT, (4,))
        tensor = numpy_helper.from_array(stored, "w")
        return helper.make_graph([made, node("Add", "x q", name)], name, [], [output], [tensor])

    weights = [1, 2, 3, 4], [-4, -3, -2, -1]
    branches = dict(zip(("then_branch", "else_branch"), map(branch, "te", weights), strict=True))
    nodes = [
        node("ReduceSum", "x", "r", keepdims=0),
        node("Greater", "r z", "c"),
        node("If", "c", "y", **branches),
    ]
    module = import_model(network(nodes, (4,), {"s": 1.0, "z": 0.0, "b": 4.0}))
    for sign, expected in zip((1, -1), weights, strict=True):
        x = np.full(4, sign / 4, np.float32)
        np.testing.assert_array_equal(run(module, {"x": x})["y"], x + np.array(expected))


def tied(bits: int, *, is_qonnx: bool, signed: int) -> onnx.ModelProto:
    """
    Return a product of integers with channels of the weights 1 and 2, quantized to `bits` bits
    with a scale of 4, in QONNX or with QuantizeLinear and Clip.
    """
    low, high = levels(bits, signed=signed, narrow=0)
    dtype = np.int8 if signed else np.uint8
    constants: dict[str, npt.ArrayLike] = {
        "xs": 1.0, "ws": np.array([1, 2], np.float32), "ys": 4.0, "z": 0.0, "b8": 8.0,
        "bn": float(bits),
        "w": np.array([[1, 2], [1, 2]], np.float32), "xz": np.int8(0), "yz": dtype(0),
        "wq": np.ones((2, 2), np.int8), "wz": np.zeros(2, np.int8),
        "low": np.array(low, dtype), "high": np.array(high, dtype),
    }  # fmt: skip
    product = node("MatMul", "xd wd", "s", "product")
    if is_qonnx:
        nodes = [
            quantizer("x xs z b8", "xd"),
            quantizer("w ws z b8", "wd"),
            product,
            quantizer("s ys z bn", "y", signed=signed),
        ]
    else:
        nodes = [
            *(node("QuantizeLinear", "x xs xz", "xq"), node("DequantizeLinear", "xq xs xz", "xd")),
            node("DequantizeLinear", "wq ws wz", "wd", axis=1),
            product,
            *(node("QuantizeLinear", "s ys yz", "yq"), node("Clip", "yq low high", "yc")),
            node("DequantizeLinear", "yc ys yz", "y"),
        ]
    used = {name for each in nodes for name in each.input}
    known = {name: array for name, array in constants.items() if name in used}
    proto = model(
        nodes, {"x": (32, 2)}, ["y"], known, infer=False, domains={DOMAIN: 1} if is_qonnx else {}
    )
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (32, 2))
    proto.graph.output[0].CopyFrom(result)
    return proto


@pytest.mark.parametrize("target", ["c", "arduino", "nnet", "dataflow", "vta"])
@pytest.mark.parametrize(
    ("bits", "is_qonnx", "signed"),
    [(2, True, 1), (4, True, 0), (8, True, 1), (3, False, 1), (4, False, 0), (8, False, 1)],
)
def test_ties_of_layers(bits: int, is_qonnx: bool, signed: int, target: str):
    """
    Ties of sums are rounded to even, as QONNX and Clip after QuantizeLinear define. VTA, and layers
    of 8 bits after QuantizeLinear, round them up. No layer remains float.
    """
    proto = tied(bits, is_qonnx=is_qonnx, signed=signed)
    x = np.stack([np.arange(-16, 16), np.zeros(32)], axis=1).astype(np.float32)
    steps = x.sum(axis=1, keepdims=True) * np.array([1.0, 2.0]) / 4
    low, high = levels(bits, signed=signed, narrow=0)
    goes_up = target == "vta" or (bits == 8 and not is_qonnx)
    rounded = np.floor(steps + 0.5) if goes_up else np.rint(steps)
    module = import_model(proto)
    options = BuildOptions(find_target(target)(), quantize="int8")
    run_stages(load_context(), module, front_stages(options.resolved(module)))
    np.testing.assert_array_equal(run(module, {"x": x})["y"], 4 * np.clip(rounded, low, high))
    assert "graph.matmul" in str(module)
    assert all("requant" in t for t in str(module).splitlines() if "graph.matmul" in t)


@pytest.mark.parametrize("bits", [4, 8])
def test_exported_models_keep_ties(bits: int):
    x = np.random.default_rng(0).integers(-16, 16, (32, 2)).astype(np.float32)
    options = BuildOptions(find_target("onnx")(), quantize="int8")
    module = import_model(tied(bits, is_qonnx=True, signed=1))
    run_stages(load_context(), module, front_stages(options))
    exported = export_model(module, "tied", silent=True)
    (expected,) = run(module, {"x": x}).values()
    np.testing.assert_array_equal(run_onnxruntime(exported, {"x": x})["y"], expected)
    again = import_model(exported)
    run_stages(load_context(), again, front_stages(options))
    np.testing.assert_array_equal(run(again, {"x": x})["y"], expected)
    assert "rounding = half_even" in str(again)


@pytest.mark.parametrize("seed", range(2))
def test_quantizations_for_vta_are_not_compared_as_written(seed: int, tmp_path: Path):
    """New scales for VTA change values, so that levels are compared with the quantized graph."""
    rng = np.random.default_rng(seed)
    nodes = [
        quantizer("x s z b", "a"),
        node("Conv", "a w", "c"),
        quantizer("c t z b", "y", rounding_mode="FLOOR", signed=0),
    ]
    constants: dict[str, npt.ArrayLike] = {"s": 0.0625, "t": 0.7, "z": 0.0, "b": 8.0}
    constants["w"] = rng.choice([-0.3, 0.3], (8, 3, 3, 3)).astype(np.float32)
    proto = network(nodes, (1, 3, 9, 9), constants)
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "in.npz", x=2 * rng.normal(size=(1, 3, 9, 9)).astype(np.float32))
    words = ["--targets", "vta", "--inputs", str(tmp_path / "in.npz")]
    assert "as written" not in call(verify_main, str(tmp_path / "model.onnx"), *words)


def number(name: str, value: npt.ArrayLike) -> Callable[[onnx.ModelProto], None]:
    def change(proto: onnx.ModelProto) -> None:
        tensor = next(t for t in proto.graph.initializer if t.name == name)
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(value, np.float32), name))

    return change


def attribute(name: str, value: float | str) -> Callable[[onnx.ModelProto], None]:
    def change(proto: onnx.ModelProto) -> None:
        del proto.graph.node[0].attribute[:]
        proto.graph.node[0].attribute.append(helper.make_attribute(name, value))

    return change


def computed_operand(index: int) -> Callable[[onnx.ModelProto], None]:
    def change(proto: onnx.ModelProto) -> None:
        proto.graph.node[0].input[index] = "x"

    return change


BROKEN: dict[str, tuple[str, Callable[[onnx.ModelProto], None], int, str]] = {
    "no bits": ("Quant", number("b", 0), 1, "an integer in [1, 32], got 0"),
    "many bits": ("Quant", number("b", 33), 1, "an integer in [1, 32], got 33"),
    "a part of a bit": ("Quant", number("b", 2.5), 1, "an integer in [1, 32], got 2.5"),
    "NaN bits": ("Quant", number("b", np.nan), 1, "an integer in [1, 32], got nan"),
    "bits per channel": ("Quant", number("b", [2, 3]), 3, "several bit widths"),
    "wide": ("Quant", number("b", 17), 3, "17 bits of computed integers: quantize to at most 16"),
    "a bit and a sign": ("Quant", number("b", 1), 3, "1 bit with a sign; quantize with Bipolar"),
    "a computed scale": ("Quant", computed_operand(1), 3, "must be constants; 'x' is computed"),
    "computed bits": ("Quant", computed_operand(3), 3, "must be constants; 'x' is computed"),
    "scales that do not fit": ("Quant", number("s", np.ones(4)), 1, "does not broadcast to [2, 3]"),
    "scales of a larger rank": ("Quant", number("s", np.ones((2, 1, 3))), 1, "does not broadcast"),
    "no scale": ("Quant", number("s", np.ones(0)), 1, "a scale of shape [0] does not broadcast"),
    "a scale per element": ("Quant", number("s", [[1, 2, 3], [4, 5, 6]]), 3, "dimensions [0, 1]"),
    "a negative scale": ("Quant", number("s", -1), 1, "must be positive and finite, got -1"),
    "a scale of 0": ("Quant", number("s", 0), 1, "must be positive and finite, got 0"),
    "half a zero point": ("Quant", number("z", 0.5), 3, "zero point 0.5: quantize with an integer"),
    "a large zero point": ("Quant", number("z", 200), 1, "must be in [-8, 7], got 200"),
    "a NaN zero point": ("Quant", number("z", np.nan), 3, "zero point nan: quantize with"),
    "an odd mode": ("Quant", attribute("rounding_mode", "odd"), 1, "ROUND_TO_ZERO, got ODD"),
    "a mode": ("Quant", attribute("rounding_mode", "UP"), 3, "rounding mode UP of a computed"),
    "a sign of 2": ("Quant", attribute("signed", 2), 1, "attribute 'signed' must be 0 or 1"),
    "an attribute": ("Quant", attribute("saturate", 1), 1, "has no attribute 'saturate'"),
    "a bipolar scale": ("BipolarQuant", number("s", 0), 1, "must be positive and finite, got 0"),
    "more bits": ("Trunc", number("b", 9), 1, "9 output bits, expected at most the 8 input bits"),
    "a row of thresholds": ("MultiThreshold", number("t", [1, 2]), 1, "thresholds of shape [2]"),
    "rows of thresholds": ("MultiThreshold", number("t", [[1], [2]]), 1, "each channel of [2, 3]"),
    "a NaN threshold": ("MultiThreshold", number("t", [[np.nan]]), 1, "that are numbers are"),
    "computed thresholds": ("MultiThreshold", computed_operand(1), 3, "thresholds must be const"),
    "a threshold scale": ("MultiThreshold", attribute("out_scale", 0.0), 1, "must not be 0"),
    "Trunc per channel": ("Trunc", number("s", [[1, 2, 3]]), 3, "with scales per channel"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_wrong_nodes_are_refused(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    kind, change, status, message = BROKEN[case]
    inputs = {
        "Quant": "x s z b",
        "BipolarQuant": "x s",
        "Trunc": "x s z i b",
        "MultiThreshold": "x t",
    }[kind]
    made = quantizer(inputs, "y", kind)
    made.name = "here"
    numbers = {"s": 0.5, "z": 0, "b": 4, "i": 8, "t": [[0.5]]}
    constants = {
        name: np.array(v, np.float32) for name, v in numbers.items() if name in inputs.split()
    }
    proto = network([made], (2, 3), constants)
    change(proto)
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    arguments = [str(tmp_path / "model.onnx"), "--target", "c", "-o", str(tmp_path / "out")]
    assert compile_main(arguments) == status
    error = capsys.readouterr().err
    assert f"node 'here' ({DOMAIN}::{kind})" in error and message in error


@pytest.mark.parametrize("bits", [2, 4, 7])
def test_execution_by_qonnx(bits: int):
    pytest.importorskip("qonnx", reason="compares with pip's qonnx")
    first, _ = pair(bits, per_channel=True, seed=bits)
    wrapper = import_module("qonnx.core.modelwrapper").ModelWrapper(first)
    shaped = wrapper.transform(import_module("qonnx.transformation.infer_shapes").InferShapes())
    x = np.random.default_rng(bits).normal(size=(1, 3, 9, 9)).astype(np.float32)
    expected = import_module("qonnx.core.onnx_exec").execute_onnx(shaped, {"x": x})["y"]
    np.testing.assert_array_equal(run(import_model(first), {"x": x})["y"], expected)


LAYOUTS = {"NCHW": (2, 4, 5, 3), "NHWC": (2, 5, 3, 4), "NC": (2, 4), "": (2, 4, 6)}
"""Data layouts of MultiThreshold, and shapes with 4 channels; three dimensions are NWC."""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("count", "scale", "bias", "stored"),
    [
        (3, 0.5, 0.0, "u2:f32, 0.5"),
        (3, 0.5, -1.0, "i2:f32, 0.5"),
        (1, 2.0, -1.0, "i1:f32, 1.0"),
        (1, -1.0, 0.5, "i1:f32, 0.5"),
        (7, -0.25, 0.0, "i4:f32, 0.25"),
        (3, 0.5, 0.125, "u2:f32, 0.5"),
        (300, 0.5, 0.0, "u16:f32, 0.5"),
    ],
)
def test_multi_threshold(layout: str, count: int, scale: float, bias: float, stored: str):
    shape, rng = LAYOUTS[layout], np.random.default_rng(count)
    axis = (layout or "NWC").index("C")
    for rows in (4, 1):
        if layout == "" and rows == 4:
            shape = (2, 6, 4)
        limits = rng.integers(-20, 20, (rows, count)).astype(np.float32) / 4
        attributes = {"out_scale": scale, "out_bias": bias, "out_dtype": "INT8"}
        made = node("MultiThreshold", "x t", "y", **attributes, data_layout=layout or None)
        made.domain = DOMAIN
        x = rng.integers(-22, 22, shape).astype(np.float32) / 4
        module = import_model(network([made], shape, {"t": limits}))
        reached = np.moveaxis(x, axis, -1)[..., None] >= limits
        expected = np.moveaxis(reached.sum(axis=-1) * scale + bias, -1, axis)
        np.testing.assert_array_equal(run(module, {"x": x})["y"], expected.astype(np.float32))
        assert f"!quant.uniform<{stored}>" in str(module)
        check(module, {"x": x})


def test_thresholds_after_a_layer_compare_integers():
    """Batch normalization before MultiThreshold becomes part of the thresholds."""
    rng = np.random.default_rng(3)
    constants = {"s": 1.0, "z": 0.0, "b": 4.0, "f": np.array([0.5, -0.25, 0.3]), "o": 0.25}
    constants = {k: np.asarray(v, np.float32) for k, v in constants.items()}
    constants |= {"w": rng.integers(-7, 8, (5, 3)).astype(np.float32)}
    constants |= {"t": np.sort(rng.normal(0, 6, (3, 3))).astype(np.float32)}
    made = node("MultiThreshold", "n t", "y", out_dtype="UINT2", data_layout="NC")
    made.domain = DOMAIN
    nodes = [
        quantizer("x s z b", "a"),
        quantizer("w s z b", "v"),
        node("MatMul", "a v", "c"),
        node("Mul", "c f", "m"),
        node("Add", "m o", "n"),
        made,
    ]
    x = rng.integers(-9, 9, (40, 5)).astype(np.float32)
    module = import_model(network(nodes, (40, 5), constants))
    before = run(module, {"x": x})["y"]
    sums = np.clip(x, -8, 7) @ constants["w"] * constants["f"] + constants["o"]
    np.testing.assert_array_equal(before, (sums[..., None] >= constants["t"]).sum(axis=-1))
    options = BuildOptions(find_target("c")(), quantize="int8")
    run_stages(load_context(), module, front_stages(options))
    assert "tensor<3x3xi32>" in str(module) and "binary" not in str(module)
    np.testing.assert_array_equal(run(module, {"x": x})["y"], before)
    check(module, {"x": x})


@pytest.mark.parametrize("target", ["nnet", "vta"])
@pytest.mark.parametrize("signed", [0, 1])
def test_widened_activations_are_clamped_by_layers(signed: int, target: str):
    nodes = [
        quantizer("x s z b8", "a"),
        quantizer("w s z b4", "v"),
        node("MatMul", "a v", "p"),
        node("Relu", "p", "r"),
        quantizer("r t z b4", "q", signed=signed),
        quantizer("u s z b4", "f"),
        node("MatMul", "q f", "m"),
        quantizer("m t z b4", "y"),
    ]
    rng = np.random.default_rng(signed)
    constants: dict[str, npt.ArrayLike] = {"s": 0.125, "t": 0.5, "z": 0.0, "b4": 4.0, "b8": 8.0}
    constants |= {name: rng.normal(size=(8, 8)).astype(np.float32) for name in "wu"}
    module = import_model(network(nodes, (3, 8), constants))
    options = BuildOptions(find_target(target)(), quantize="int8")
    run_stages(load_context(), module, front_stages(options.resolved(module)))
    layers = [text for text in str(module).splitlines() if "graph.matmul" in text]
    assert len(layers) == 2 and all("requant" in text for text in layers)
    assert ("low = 0, high = 7>" if signed else "low = -128, high = -113>") in layers[0]
    assert "graph.unary" not in str(module)
