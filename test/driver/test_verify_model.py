"""Check that `ceras-verify` compares the import with the ONNX model, and finds faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper
from onnx_models import Array, model, node, norm_parameters, weights
from reference_imports import suspended

from ceras_ir.dialects.graph import Binary, Function
from ceras_ir.driver.differences import Verdict
from ceras_ir.driver.verify import model_reference
from ceras_ir.driver.verify.model_check import model_verdict
from ceras_ir.driver.verify.tool import main
from ceras_ir.frontends.onnx import NamedImport, import_file, importer
from ceras_ir.frontends.onnx.emission import folding
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import OPERATORS
from ceras_ir.frontends.onnx.emission.values import Value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators import load_operators

RANDOM = np.random.default_rng(59)
IMAGE = (1, 2, 4, 4)

Change = Callable[[onnx.NodeProto], None]


@pytest.fixture(autouse=True)
def faults_are_not_compared_elsewhere() -> Iterator[None]:
    with suspended():
        yield


def function_model() -> onnx.ModelProto:
    """Call a function without the attribute for which the function declares a default."""
    inner = helper.make_node("LeakyRelu", ["a"], ["b"])
    inner.attribute.add(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    function = helper.make_function(
        "own", "f", ["a"], ["b"], [inner], [helper.make_opsetid("", 17)], []
    )
    function.attribute_proto.append(helper.make_attribute("alpha", 0.5))
    call = helper.make_node("f", ["x"], ["y"], domain="own")
    found = model([call], {"x": (1, 8)}, ["y"], opset=17, infer=False, domains={"own": 1})
    found.functions.append(function)
    found.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    return found


def verdict(
    proto: onnx.ModelProto, folder: Path, inputs: Mapping[str, Array] | None = None
) -> Verdict:
    path = save(proto, folder / "model.onnx")
    samples = [] if inputs is None else [inputs]
    outputs: list[Mapping[str, Array]] = [{} for _ in samples]
    given = inputs is not None
    return model_verdict(str(path), observed(path), {}, samples, outputs, given=given, seconds=0.0)


def observed(path: Path, batch: int = 1) -> NamedImport:
    """Import a file, and stop before transposes are eliminated."""
    found: list[NamedImport] = []
    import_file(path, batch=batch, observe=found.append)
    return found[0]


def save(proto: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(proto.SerializeToString())
    return path


def set_attribute(name: str, value: object) -> Change:
    def change(proto: onnx.NodeProto) -> None:
        kept = [a for a in proto.attribute if a.name != name]
        del proto.attribute[:]
        proto.attribute.extend([*kept, helper.make_attribute(name, value)])

    return change


def swap_inputs(proto: onnx.NodeProto) -> None:
    names = list(proto.input)
    del proto.input[:]
    proto.input.extend(reversed(names))


def drop_last_input(proto: onnx.NodeProto) -> None:
    del proto.input[-1]


def move_slice(proto: onnx.NodeProto, by: int) -> None:
    for attribute in proto.attribute:
        if attribute.name in ("starts", "ends"):
            attribute.ints[0] += by


FLAT = {"x": (2, 6)}
NORM: dict[str, Array] = dict(zip(("s", "b", "m", "v"), norm_parameters(RANDOM, 2), strict=True))
TIES = {"x": np.array([[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]], np.float32)}
NUMBERS = {"x": np.array([[-7, -6, -1, 1, 6, 7]], np.int64)}
SCALE = {"s": np.float32(0.1), "z": np.uint8(5)}
LSTM = {"w": weights(RANDOM, 1, 12, 4), "r": weights(RANDOM, 1, 12, 3)}

FAULTS: dict[str, tuple[onnx.ModelProto, str, Change, Mapping[str, Array] | None]] = {
    "axis of Softmax": (
        model([node("Softmax", "x", "y", axis=1)], FLAT, ["y"]),
        "Softmax",
        set_attribute("axis", 0),
        None,
    ),
    "side of the padding of Conv": (
        model(
            [node("Conv", "x w", "y", pads=[1, 0, 0, 1])],
            {"x": IMAGE},
            ["y"],
            {"w": weights(RANDOM, 3, 2, 2, 2)},
        ),
        "Conv",
        set_attribute("pads", [0, 1, 1, 0]),
        None,
    ),
    "operands of Sub": (
        model([node("Sub", "x c", "y")], FLAT, ["y"], {"c": np.float32(0.3)}),
        "Sub",
        swap_inputs,
        None,
    ),
    "epsilon of BatchNormalization": (
        model([node("BatchNormalization", "x s b m v", "y")], {"x": IMAGE}, ["y"], NORM),
        "BatchNormalization",
        set_attribute("epsilon", 1e-3),
        None,
    ),
    "default alpha of LeakyRelu": (
        model([node("LeakyRelu", "x", "y")], FLAT, ["y"]),
        "LeakyRelu",
        set_attribute("alpha", 0.02),
        None,
    ),
    "transposition of Gemm": (
        model(
            [node("Gemm", "x w", "y", transB=1)], {"x": (2, 4)}, ["y"], {"w": weights(RANDOM, 4, 4)}
        ),
        "Gemm",
        set_attribute("transB", 0),
        None,
    ),
    "start of Slice": (
        model([node("Slice", "x", "y", starts=[1], ends=[4], axes=[1])], FLAT, ["y"], opset=9),
        "Slice",
        lambda proto: move_slice(proto, 1),
        None,
    ),
    "coordinates of Resize": (
        model(
            [node("Resize", "x - s", "y", mode="linear")],
            {"x": IMAGE},
            ["y"],
            {"s": np.array([1, 1, 2, 2], np.float32)},
        ),
        "Resize",
        set_attribute("coordinate_transformation_mode", "asymmetric"),
        None,
    ),
    "rounding of Resize": (
        model(
            [node("Resize", "x - s", "y", mode="nearest", nearest_mode="floor")],
            {"x": IMAGE},
            ["y"],
            {"s": np.array([1, 1, 2, 2], np.float32)},
        ),
        "Resize",
        set_attribute("nearest_mode", "ceil"),
        None,
    ),
    "padding that AveragePool counts": (
        model(
            [node("AveragePool", "x", "y", kernel_shape=[2, 2], pads=[1, 1, 0, 0])],
            {"x": IMAGE},
            ["y"],
        ),
        "AveragePool",
        set_attribute("count_include_pad", 1),
        None,
    ),
    "order of Transpose": (
        model([node("Transpose", "x", "y", perm=[1, 2, 0])], {"x": (3, 3, 3)}, ["y"]),
        "Transpose",
        set_attribute("perm", [2, 0, 1]),
        None,
    ),
    "order of Concat": (
        model([node("Concat", "x z", "y", axis=1)], {"x": (1, 4), "z": (1, 4)}, ["y"]),
        "Concat",
        swap_inputs,
        None,
    ),
    "direction of LSTM": (
        model([node("LSTM", "x w r", "y", hidden_size=3)], {"x": (3, 1, 4)}, ["y"], LSTM),
        "LSTM",
        set_attribute("direction", "reverse"),
        None,
    ),
    "zero point of QuantizeLinear": (
        model([node("QuantizeLinear", "x s z", "y")], FLAT, ["y"], SCALE),
        "QuantizeLinear",
        drop_last_input,
        None,
    ),
    "upper bound of Clip": (
        model([node("Clip", "x l h", "y")], FLAT, ["y"], {"l": np.float32(-1), "h": np.float32(1)}),
        "Clip",
        drop_last_input,
        None,
    ),
}


def inject(patch: pytest.MonkeyPatch, operator: str, change: Change) -> None:
    """Pass another node than that of the model to the importer of an operator."""
    load_operators()
    original = OPERATORS[operator]

    def wrong(given: Node, emitter: Emitter) -> Value | list[Value] | tuple[Value, ...]:
        proto = onnx.NodeProto()
        proto.CopyFrom(given.proto)
        change(proto)
        emitter.node = Node(proto, given.opset, given.constants)
        result = original(emitter.node, emitter)
        given.ignore(*(attribute.name for attribute in given.proto.attribute))
        return result if isinstance(result, Value) else list(result)

    patch.setitem(OPERATORS, operator, wrong)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_an_operator_is_found(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    proto, operator, change, inputs = FAULTS[fault]
    right = verdict(proto, tmp_path, inputs)
    assert right.good, right.text
    inject(monkeypatch, operator, change)
    found = verdict(proto, tmp_path, inputs)
    assert found.exit_status == 1
    assert f"({operator}), tensor 'y'" in found.text


def refuse_onnxruntime(patch: pytest.MonkeyPatch) -> None:
    def absent(model: onnx.ModelProto, names: object, folder: object) -> model_reference.Started:
        raise ModuleNotFoundError

    patch.setattr(model_reference, "_onnxruntime", absent)


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_function_without_its_default_is_found(
    is_installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if not is_installed:
        refuse_onnxruntime(monkeypatch)
    original = importer.inlined

    def drop_defaults(given: onnx.ModelProto) -> onnx.ModelProto:
        bare = onnx.ModelProto()
        bare.CopyFrom(given)
        for function in bare.functions:
            del function.attribute_proto[:]
        return original(bare)

    monkeypatch.setattr(importer, "inlined", drop_defaults)
    found = verdict(function_model(), tmp_path)
    assert found.exit_status == 1
    assert "node 'y' (f), tensor 'y'" in found.text


def test_ties_that_are_rounded_away_from_zero_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    proto = model([node("Round", "x", "y")], {"x": (1, 6)}, ["y"])
    assert verdict(proto, tmp_path, TIES).good
    load_operators()

    def half_up(given: Node, emitter: Emitter) -> Value:
        moved = emitter.add(emitter.value(0), emitter.number(0.5))
        return emitter.unary(Function.FLOOR, moved)

    monkeypatch.setitem(OPERATORS, "Round", half_up)
    found = verdict(proto, tmp_path, TIES)
    assert found.exit_status == 1
    assert (
        "[0, 1]: the imported graph computes -1.0, the reference -2.0; bound 2.4e-07" in found.text
    )


def test_integer_quotients_that_are_rounded_down_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    proto = model(
        [node("Div", "x c", "y")],
        {"x": (1, 6)},
        ["y"],
        {"c": np.int64(4)},
        dtype=TensorProto.INT64,
    )
    assert verdict(proto, tmp_path, NUMBERS).good
    load_operators()

    def floor(given: Node, emitter: Emitter) -> Value:
        a, b = emitter.value(0), emitter.value(1)
        less = emitter.binary(Binary.MIN, a, emitter.number(0, a))
        moved = emitter.binary(Binary.MAX, less, emitter.number(-1, a))
        three = emitter.mul(moved, emitter.number(3, a))
        return emitter.div(emitter.add(a, three), b)

    monkeypatch.setitem(OPERATORS, "Div", floor)
    found = verdict(proto, tmp_path, NUMBERS)
    assert found.exit_status == 1
    assert "[0, 0]: the imported graph computes -2, the reference -1" in found.text


def test_a_constant_that_is_folded_wrongly_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    nodes = [node("Sqrt", "c", "r"), node("Add", "x r", "y")]
    proto = model(nodes, {"x": (1, 2)}, ["y"], {"c": np.array([2, 3], np.float32)})
    assert verdict(proto, tmp_path).good
    original = folding.evaluate

    def off(given: Node, operands: list[Array | None]) -> list[Array]:
        return [np.multiply(a, 1 + 2.0**-20, dtype=np.float32) for a in original(given, operands)]

    monkeypatch.setattr(importer, "evaluate", off)
    found = verdict(proto, tmp_path)
    assert found.exit_status == 1
    assert "(Sqrt), tensor 'r'[0]" in found.text


@pytest.mark.slow
def test_the_command_exits_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    proto, operator, change, _ = FAULTS["default alpha of LeakyRelu"]
    path = save(proto, tmp_path / "model.onnx")
    command = [str(path), "--targets", "c", "--quantize", "none"]
    inject(monkeypatch, operator, change)
    assert main(command) == 1
    printed = capsys.readouterr().out
    assert "differs from the model, computed by ONNX Runtime" in printed
    assert "at node 'y_leakyrelu' (LeakyRelu)" in printed
    assert main([*command, "--no-reference"]) == 0
    assert "imported graph  " not in capsys.readouterr().out


@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_subnormal_numbers_of_float16(
    factor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The reference rounds 1e-8 to 0 and 5e-8 to 2^-24. A fourfold product is still found."""
    nodes = [node("Cast", "x", "h", to=10), node("Mul", "h s", "p"), node("Cast", "p", "y", to=1)]
    small = np.array([[1e-4, 5e-4, 1e-3, 2e-3]], np.float16)
    proto = model(nodes, {"x": (1, 4)}, ["y"], {"s": small})
    load_operators()
    compute = OPERATORS["Mul"]

    def scaled(given: Node, emitter: Emitter) -> Value | Sequence[Value]:
        result = compute(given, emitter)
        assert not isinstance(result, Sequence)
        return emitter.mul(result, emitter.constant(np.array(factor, np.float32), "factor"))

    monkeypatch.setitem(OPERATORS, "Mul", scaled)
    found = verdict(proto, tmp_path, {"x": np.full((1, 4), 1e-4, np.float32)})
    assert found.exit_status == (factor != 1), found.text


def test_a_dynamically_quantized_lstm_is_within_its_bounds(tmp_path: Path):
    numbers = np.random.default_rng(4)
    stored: dict[str, Array] = {
        name: numbers.integers(-127, 128, (1, rows, 28)).astype(np.int8)
        for name, rows in (("w", 5), ("r", 7))
    }
    stored |= {name: numbers.normal(0, 0.02, (1, 1, 7)).astype(np.float32) for name in ("h", "c")}
    stored["b"] = numbers.normal(0, 0.4, (1, 56)).astype(np.float32)
    stored |= {"s": np.full(1, 0.01, np.float32), "z": np.zeros(1, np.int8)}
    lstm = helper.make_node(
        "DynamicQuantizeLSTM",
        ["x", "w", "r", "b", "", "h", "c", "", "s", "z", "s", "z"],
        ["y"],
        domain="com.microsoft",
        hidden_size=7,
    )
    proto = model(
        [lstm], {"x": (24, 1, 5)}, ["y"], stored, infer=False, domains={"com.microsoft": 1}
    )
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    for magnitude in (0.05, 0.2, 1.0, 4.0, 16.0):
        for _ in range(4):
            x = numbers.normal(0, magnitude, (24, 1, 5)).astype(np.float32)
            found = verdict(proto, tmp_path, {"x": x})
            assert found.good, found.text


def test_a_reference_that_cannot_run_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(model: onnx.ModelProto, names: object, folder: object) -> model_reference.Started:
        raise ValueError("no operator\nof this name")

    monkeypatch.setattr(model_reference, "_onnxruntime", refuse)
    monkeypatch.setattr(model_reference, "_evaluator", refuse)
    found = verdict(model([node("Relu", "x", "y")], FLAT, ["y"]), tmp_path)
    assert found.good
    reasons = "ONNX Runtime: no operator; ONNX's reference evaluator: no operator"
    assert found.text == f"not compared with the model: {reasons}"


def test_the_evaluator_of_onnx_is_the_reference_without_onnxruntime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    refuse_onnxruntime(monkeypatch)
    proto = FAULTS["direction of LSTM"][0]
    found = verdict(proto, tmp_path)
    assert found.good
    assert "ONNX's reference evaluator" in found.text


@pytest.mark.parametrize("opset", [9, 13, 14])
def test_batch_normalization_without_onnxruntime_uses_the_given_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opset: int
):
    refuse_onnxruntime(monkeypatch)
    channels = ("scale", "bias", "mean", "variance")
    tensors = {name: np.abs(weights(RANDOM, 3)) + np.float32(0.5) for name in channels}
    proto = model(
        [node("BatchNormalization", f"x {' '.join(channels)}", "y", epsilon=0.1)],
        {"x": (2, 3, 4, 4)},
        ["y"],
        tensors,
        opset=opset,
    )
    found = verdict(proto, tmp_path)
    assert found.good and "ONNX's reference evaluator" in found.text


def test_batch_normalization_with_more_outputs_keeps_the_statistics_of_the_batch() -> None:
    """Operator sets before 14 define a training mode, which the evaluator computes."""
    given = {name: np.full(3, 2, np.float32) for name in ("scale", "bias", "mean", "variance")}
    results = list[Array]()
    for outputs in ("y", "y a b c d"):
        nodes = [node("BatchNormalization", f"x {' '.join(given)}", outputs)]
        proto = model(nodes, {"x": (2, 3, 4, 4)}, ["y"], given, opset=9)
        _, run = model_reference._evaluator(proto, ["y"], None)  # pyright: ignore[reportPrivateUsage]
        results.append(np.asarray(run({"x": weights(np.random.default_rng(0), 2, 3, 4, 4)})[0]))
    assert not np.allclose(results[0], results[1])


def test_external_data_and_outputs_that_are_initializers(tmp_path: Path):
    tensors = {"w": weights(RANDOM, 4, 64)}
    proto = model([node("MatMul", "x w", "y")], {"x": ("N", 4)}, ["y"], tensors, infer=False)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    proto.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 64]))
    external_data_helper.convert_model_to_external_data(proto, location="big", size_threshold=0)
    external_data_helper.write_external_data_tensors(proto, str(tmp_path))
    path = save(proto, tmp_path / "model.onnx")
    found = model_verdict(str(path), observed(path, 3), {}, [], [], given=False, seconds=0.0)
    assert found.good
    assert "1 tensors of 1 sample(s)" in found.text


def test_states_are_those_of_the_reference(tmp_path: Path):
    nodes = [node("Add", "x h", "s"), node("Tanh", "s", "n"), node("Mul", "n x", "y")]
    path = save(model(nodes, {"x": (1, 3), "h": (1, 3)}, ["y", "n"]), tmp_path / "s.onnx")
    command = [str(path), "--targets", "c", "--quantize", "none", "--state", "h=n"]
    assert main(command) == 0


def test_a_wrong_elimination_of_transposes_is_found(tmp_path: Path):
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    proto = model([node("Transpose", "x", "y", perm=[1, 0])], {"x": (3, 3)}, ["y"])
    path = save(proto, tmp_path / "model.onnx")
    for y, status in ((x.T, 0), (x, 1)):
        found = model_verdict(
            str(path), observed(path), {}, [{"x": x}], [{"y": y}], given=True, seconds=0.0
        )
        assert found.exit_status == status, found.text
        assert ("transposes, which are eliminated: output 'y'" in found.text) == bool(status)
