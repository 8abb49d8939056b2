"""Compare DynamicQuantizeLSTM with ONNX Runtime and the definition, and C with the interpreter."""

import json
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from interpreters.test_recurrence import recurrent
from onnx import TensorProto, helper, numpy_helper
from onnx_models import Array, run_onnxruntime
from slow_cases import first_fast

from ceras_ir.backends.c.target import CTarget
from ceras_ir.command.output_files import write_artefacts
from ceras_ir.data.sample_stream import synthetic_samples
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import build, open_folder
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import InputError, UnsupportedError

pytest.importorskip("onnxruntime")

TOLERANCE = 4e-6
"""The tolerance of results, for the last bits of functions; 8-bit rounding is about 1e-3."""


@dataclass(frozen=True)
class Layer:
    """A layer of random weights, with random inputs and optional parts."""

    steps: int = 5
    batch: int = 1
    size: int = 5
    hidden: int = 6
    direction: str = "forward"
    dtype: type[np.int8 | np.uint8] = np.int8
    per_channel: bool = False
    starts: bool = False
    lengths: tuple[int, ...] = ()
    activations: tuple[str, ...] = ()
    changed: dict[str, Array] = field(default_factory=dict[str, Array])
    """Tensors that replace random tensors."""

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    def tensors(self) -> dict[str, Array]:
        """Return constant operands by name; zero points are never the middle of the integers."""
        rng, d, bounds = np.random.default_rng(0), self.directions, np.iinfo(self.dtype)
        found: dict[str, Array] = {}
        for name, rows in (("w", self.size), ("r", self.hidden)):
            shape = (d, rows, 4 * self.hidden)
            found[name] = rng.integers(bounds.min, bounds.max + 1, shape).astype(self.dtype)
            scales = (d, 4 * self.hidden) if self.per_channel else (d,)
            limit = 1.5 / rows**0.5 / 128
            found[f"{name}s"] = rng.uniform(limit / 2, limit, scales).astype(np.float32)
            # ONNX Runtime supports no other zero points of channels.
            point = 0 if self.per_channel and self.dtype is np.int8 else bounds.max // 2 + 7
            found[f"{name}z"] = np.full(scales, point, self.dtype)
        found["b"] = rng.normal(0, 0.3, (d, 8 * self.hidden)).astype(np.float32)
        return found | self.changed

    def inputs(self) -> dict[str, Array]:
        rng, state = (
            np.random.default_rng(1),
            (self.directions, self.batch, self.hidden),
        )
        shapes = {"x": (self.steps, self.batch, self.size)}
        shapes |= {"h": state, "c": state} if self.starts else {}
        found: dict[str, Array] = {
            name: rng.normal(0.3, 1, shape).astype(np.float32) for name, shape in shapes.items()
        }
        if self.lengths:
            found["lengths"] = np.array(self.lengths, np.int32)
        return found

    def model(self) -> onnx.ModelProto:
        given = self.inputs()
        names = ["x", "w", "r", "b", "lengths", "h", "c", "", "ws", "wz", "rs", "rz"]
        tensors = self.tensors()
        operands = [name if name in given or name in tensors else "" for name in names]
        state = [self.directions, self.batch, self.hidden]
        shapes = {"y": [self.steps, *state[:1], *state[1:]], "hn": state, "cn": state}
        results = list(shapes)[: 2 if self.lengths else 3]
        node = helper.make_node(
            "DynamicQuantizeLSTM",
            operands,
            results,
            "layer",
            domain="com.microsoft",
            hidden_size=self.hidden,
            direction=self.direction,
        )
        if self.activations:
            node.attribute.append(helper.make_attribute("activations", self.activations))
        kinds = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32}
        graph = helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info(k, kinds[v.dtype], v.shape) for k, v in given.items()],
            [helper.make_tensor_value_info(k, TensorProto.FLOAT, shapes[k]) for k in results],
            [numpy_helper.from_array(v, k) for k, v in tensors.items()],
        )
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        proto = helper.make_model(graph, opset_imports=imports)
        proto.ir_version = 8
        return proto


@dataclass
class Definition:
    """
    Compute a layer without sequence lengths by definition, with functions in float64.

    Each integer is computed separately.
    """

    layer: Layer
    tie_distance: float = 0.5
    """The minimum distance of a state from a tie, in steps."""

    def results(self) -> dict[str, Array]:
        layer, given = self.layer, self.layer.inputs()
        found: dict[str, list[Array]] = {"y": [], "hn": [], "cn": []}
        for d in range(layer.directions):
            turned = slice(None, None, -1 if d or layer.direction == "reverse" else 1)
            bias = layer.tensors()["b"][d].reshape(2, -1).sum(0)
            gates = self._product(given["x"], "w", d)[turned] + bias
            zeros = np.zeros((layer.directions, layer.batch, layer.hidden), np.float32)
            h, c = given.get("h", zeros)[d], given.get("c", zeros)[d]
            states: list[Array] = []
            for x in gates:
                a = (x + self._product(h, "r", d)).astype(float)
                a = a.reshape(layer.batch, 4, layer.hidden)
                i, o, f = np.moveaxis(1 / (1 + np.exp(-a[:, :3])), 1, 0)
                c = (f * c + i * np.tanh(a[:, 3])).astype(np.float32)
                h = (o * np.tanh(c)).astype(np.float32)
                states.append(h)
            for name, value in (("y", np.stack(states)[turned]), ("hn", h), ("cn", c)):
                found[name].append(value)
        return {name: np.stack(parts, int(name == "y")) for name, parts in found.items()}

    def _product(self, values: Array, name: str, d: int) -> Array:
        """Multiply `values`, quantized dynamically, by weights."""
        tensors = self.layer.tensors()
        q, scale = self._rounded(values)
        weights = tensors[name][d].astype(np.int64) - int(tensors[f"{name}z"][d].flat[0])
        sums = q.reshape(-1, values.shape[-1]) @ weights
        factor = scale * tensors[f"{name}s"][d]
        return (sums.astype(np.float32) * factor).reshape(*values.shape[:-1], -1)

    def _rounded(self, values: Array) -> tuple[Array, np.float32]:
        """Return the integers of DynamicQuantizeLinear minus the zero point, and the scale."""
        low, high = (np.float32(f(0, f(values.flat))) for f in (min, max))
        scale = np.float32(1) if low == high else (high - low) / np.float32(255)
        point = round(float(-low / scale))
        steps = [float(v / scale) for v in values.flat]
        self.tie_distance = min(self.tie_distance, *(abs(s % 1 - 0.5) for s in (*steps, 0)))
        return np.array([min(max(round(s), -point), 255 - point) for s in steps]), scale


LAYERS = {
    "forward": Layer(),
    "uint8": Layer(dtype=np.uint8, size=40, hidden=33),
    "channels": Layer(per_channel=True, size=40, hidden=64, steps=9),
    "channels of uint8": Layer(per_channel=True, dtype=np.uint8, size=3, hidden=17),
    "batch": Layer(batch=3, starts=True, steps=8),
    "wide batch": Layer(batch=2, hidden=260, size=16, steps=1, starts=True),
    "reverse": Layer(direction="reverse", starts=True, dtype=np.uint8),
    "both directions": Layer(direction="bidirectional", batch=2, starts=True),
    "channels of both": Layer(direction="bidirectional", per_channel=True, batch=2),
    "one step": Layer(steps=1, starts=True, hidden=1),
}


def compared(layer: Layer, expected: dict[str, Array], tolerance: float = TOLERANCE) -> None:
    found = run(import_model(layer.model()), layer.inputs())
    for name, array in expected.items():
        real = np.asarray(found[name], np.float32)
        np.testing.assert_allclose(real, array.astype(np.float32), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", LAYERS)
def test_as_onnx_runtime(name: str) -> None:
    layer = LAYERS[name]
    compared(layer, run_onnxruntime(layer.model(), layer.inputs()))


@pytest.mark.parametrize("name", LAYERS)
def test_as_it_is_defined(name: str) -> None:
    definition = Definition(LAYERS[name])
    compared(LAYERS[name], definition.results())
    # The last bits of functions, which differ between machines, decide no rounding.
    assert definition.tie_distance > 5e-4


def built(proto: onnx.ModelProto, folder: Path) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the results of the interpreter and of C for the same random inputs."""
    module = import_model(proto)
    (sample,) = synthetic_samples(main_function(module), 1, 1)
    expected: dict[str, Array] = dict(run(module, sample))
    write_artefacts(folder, build(module, BuildOptions(CTarget()).resolved(module)).files())
    (found,) = open_folder(folder).run([sample])
    return expected, dict(found)


@pytest.mark.parametrize("name", first_fast(1, LAYERS))
def test_c_has_the_same_bits(name: str, tmp_path: Path) -> None:
    expected, found = built(LAYERS[name].model(), tmp_path / "out")
    for key, array in expected.items():
        np.testing.assert_array_equal(found[key], array, err_msg=key)


def test_weights_take_a_byte_each(tmp_path: Path) -> None:
    layer = Layer(size=64, hidden=128, per_channel=True)
    module = import_model(layer.model())
    write_artefacts(tmp_path / "out", build(module, BuildOptions(CTarget())).files())
    totals = json.loads((tmp_path / "out" / "report.json").read_text())["totals"]
    weights = 4 * layer.hidden * (layer.size + layer.hidden)
    # In 32 bits: the scales of both matrices, the bias, and the sum of the weights of each output.
    vectors = 4 * 4 * layer.hidden * 4
    assert weights < totals["flash_bytes"] < weights + vectors + 1024


RELU = ("Relu", "Relu", "Relu")


def of_integers(state: list[float]) -> Layer:
    """Build a step with the cell state |q|; q are the integers of a state of scale 1."""
    n = len(state)
    r = np.zeros((1, n, 4 * n), np.int8)
    for i, value in enumerate(state):
        r[0, i, 3 * n + i] = -1 if value < 0 else 1
    b = np.zeros((1, 8 * n), np.float32)
    b[0, : 2 * n] = 1  # The gates of the input and of the output.
    one, zero = np.ones(1, np.float32), np.zeros(1, np.int8)
    changed: dict[str, Array] = {"r": r, "rs": one, "rz": zero, "b": b, "wz": zero}
    changed["w"] = np.zeros((1, 5, 4 * n), np.int8)
    return Layer(steps=1, hidden=n, starts=True, activations=RELU, changed=changed)


@pytest.mark.parametrize(
    ("state", "integers"),
    [
        # Ties go to even integers.
        ([255, 0.5, 1.5, 2.5, 3.4999998], [255, 0, 2, 2, 3]),
        ([-255, -0.5, -1.5, -2.5, 0], [255, 0, 2, 2, 0]),
        # A zero point of 102, from a tie: 101.5 to even; 153.5 would be 154, beyond 255 - 102.
        ([-101.5, 153.5, -100.5, 0.25], [102, 153, 100, 0]),
        # A zero point of 100, from a tie.
        ([-100.5, 154.5, -0.75, 0.75], [100, 154, 1, 1]),
        # 0 is within the range, and all zeros have scale 1.
        ([200, 255, 100, 7], [200, 255, 100, 7]),
        ([0, 0, 0, 0], [0, 0, 0, 0]),
    ],
)
def test_ties_and_bounds(state: list[float], integers: list[int], tmp_path: Path) -> None:
    layer = of_integers(state)
    inputs = {"x": np.zeros((1, 1, 5), np.float32), "c": np.zeros((1, 1, len(state)), np.float32)}
    inputs["h"] = np.array([[state]], np.float32)
    module = import_model(layer.model())
    expected = np.array([[integers]], np.float32)
    np.testing.assert_array_equal(run(module, inputs)["cn"], expected)
    np.testing.assert_array_equal(run_onnxruntime(layer.model(), inputs)["cn"], expected)
    write_artefacts(tmp_path / "out", build(module, BuildOptions(CTarget())).files())
    (found,) = open_folder(tmp_path / "out").run([inputs])
    np.testing.assert_array_equal(found["cn"], expected)


def test_the_range_is_that_of_the_batch() -> None:
    """A state within 1 has few different integers if another sequence has a large state."""
    alone = Layer(starts=True, steps=1)
    inputs = alone.inputs()
    pair = {k: np.concatenate([v, v * (100 if k == "h" else 1)], 1) for k, v in inputs.items()}
    both = replace(alone, batch=2)
    found = run(import_model(both.model()), pair)
    for name, array in run_onnxruntime(both.model(), pair).items():
        np.testing.assert_allclose(np.asarray(found[name], float), array, rtol=0, atol=1e-5)
    first = np.asarray(run(import_model(alone.model()), inputs)["y"], float)
    assert np.abs(np.asarray(found["y"], float)[:, :, :1] - first).max() > 1e-3


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [(5, 3, 7, 0), (2, 2, 1, 2), (8, 8, 8, 8)])
def test_lengths_of_sequences(direction: str, lengths: tuple[int, ...]) -> None:
    """Values after the end of a sequence do not count for the range of the batch."""
    layer = Layer(8, 4, 6, 10, direction, starts=True, lengths=lengths)
    compared(layer, run_onnxruntime(layer.model(), layer.inputs()))


def test_lengths_with_gates_that_never_close_are_refused() -> None:
    layer = Layer(batch=2, lengths=(5, 3), activations=("Tanh", "Tanh", "Tanh"))
    with pytest.raises(UnsupportedError, match="function 'tanh'; use Sigmoid or HardSigmoid"):
        import_model(layer.model())
    layer = replace(layer, activations=("HardSigmoid", "Tanh", "Tanh"))
    compared(layer, run_onnxruntime(layer.model(), layer.inputs()))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
def test_models_of_the_quantizer(kind: str, per_channel: bool, tmp_path: Path) -> None:
    quantization: Any = import_module("onnxruntime.quantization")
    source, target = tmp_path / "float.onnx", tmp_path / "dynamic.onnx"
    proto = recurrent("LSTM", "bidirectional", starts=True, hidden=20, batch=1)
    source.write_bytes(proto.SerializeToString())
    quantization.quantize_dynamic(
        source,
        target,
        op_types_to_quantize=["LSTM"],
        per_channel=per_channel,
        weight_type=getattr(quantization.QuantType, kind),
    )
    dynamic = onnx.load_model_from_string(target.read_bytes())
    assert [node.op_type for node in dynamic.graph.node] == ["DynamicQuantizeLSTM"]
    module = import_model(dynamic)
    (sample,) = synthetic_samples(main_function(module), 1, 1)
    found = run(module, sample)
    for name, array in run_onnxruntime(dynamic, dict(sample)).items():
        np.testing.assert_allclose(np.asarray(found[name], float), array, rtol=0, atol=TOLERANCE)


POINTS = np.array([[0] * 23 + [1]], np.int8)
WRONG: dict[str, tuple[dict[str, Array], type[Exception], str]] = {
    "points": ({"rz": POINTS}, UnsupportedError, "operand 11 has several zero points for a dir"),
    "type": ({"wz": np.zeros(1, np.uint8)}, InputError, "zero point is uint8, expected int8"),
    "scale": ({"ws": np.ones(7, np.float32)}, InputError, r"operand 8 of shape \[7\] does not fit"),
    "negative": ({"rs": -np.ones(1, np.float32)}, InputError, "must be finite and not negative"),
    "integer": ({"rs": np.ones(1, np.int32)}, InputError, "the scale must be float32, got int32"),
    "floats": ({"r": np.ones((1, 6, 24), np.float32)}, InputError, "expected int8 or uint8"),
    "shape": ({"w": np.ones((1, 4, 24), np.int8)}, InputError, r"W of shape \[1, 24, 4\], expec"),
    "rank": ({"w": np.ones((5, 24), np.int8)}, InputError, "expected three dimensions"),
}


@pytest.mark.parametrize("name", WRONG)
def test_operands_that_do_not_fit(name: str) -> None:
    changed, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        import_model(Layer(changed=changed).model())


def test_computed_weights_are_refused() -> None:
    proto = Layer().model()
    proto.graph.node[0].input[1] = "x"
    with pytest.raises(UnsupportedError, match="'x' is computed; export the LSTM in float"):
        import_model(proto)
