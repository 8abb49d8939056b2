"""Build small ONNX models for tests: `model(nodes, inputs, outputs, initializers)`.

Each builder returns a model that `onnx.checker` accepts with full shape inference. Weights are
seeded, so the same call gives the same model. ONNX defines the results of the models: expected
values are computed by ONNX Runtime (`run_onnxruntime`) or by NumPy in the test, never here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from ceras_ir.driver.verify.unsigned_weights import with_unsigned_weights

Array = npt.NDArray[Any]
"""An array of the element type that the model declares."""

Shape = Sequence[int | str]
"""Dimensions; a string is a symbolic dimension."""

Attribute = int | float | str | Sequence[int] | Sequence[float] | None


def node(
    op: str,
    inputs: str,
    outputs: str,
    name: str = "",
    /,
    **attributes: Attribute | onnx.GraphProto,
) -> onnx.NodeProto:
    """Create `node("Conv", "x w", "y", group=2)`: blanks separate names; None omits an attribute.

    An omitted optional input is written `-`. The default name of the node is the first output.
    """
    operands = ["" if value == "-" else value for value in inputs.split()]
    results = outputs.split()
    given = {key: value for key, value in attributes.items() if value is not None}
    proto = helper.make_node(op, operands, results, name or f"{results[0]}_{op.lower()}")
    proto.attribute.extend(helper.make_attribute(key, given[key]) for key in sorted(given))
    return proto


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    outputs: Sequence[str],
    initializers: Mapping[str, npt.ArrayLike] | None = None,
    *,
    opset: int = 13,
    dtype: int = TensorProto.FLOAT,
    infer: bool = True,
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """Build a checked model. Types and shapes of `outputs` are inferred; inputs have `dtype`.

    Python numbers in `initializers` become float32 or int64. `infer=False` skips inference and
    the check, for models that are wrong on purpose; `domains` are further operator sets.
    """
    graph = helper.make_graph(
        list(nodes),
        "main",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(constant(v), k) for k, v in (initializers or {}).items()],
    )
    opsets = {"": opset} | dict(domains or {})
    proto = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(domain, number) for domain, number in opsets.items()],
        # Use an older version than onnx's newest: the installed ONNX Runtime may be older than
        # onnx.
        ir_version=8,
        producer_name="ceras_ir test",
    )
    if infer:
        proto = shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
        check(proto)
    return proto


def check(proto: onnx.ModelProto) -> None:
    """Raise unless `proto` is valid ONNX, shapes and types included."""
    # onnx annotates a bare PathLike.
    onnx.checker.check_model(proto, full_check=True)  # pyright: ignore[reportUnknownMemberType]


def constant(value: npt.ArrayLike) -> Array:
    """Return `value` as an array, with Python's floats as float32 and integers as int64."""
    array = np.asarray(value)
    if not isinstance(value, np.ndarray | np.generic) and array.dtype == np.float64:
        return array.astype(np.float32)
    return array


def value_shape(proto: onnx.ModelProto, name: str) -> tuple[int | str, ...]:
    """Return the shape of an input, output or inferred inner value."""
    graph = proto.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.name == name:
            dims = value.type.tensor_type.shape.dim
            return tuple(dim.dim_param or dim.dim_value for dim in dims)
    raise KeyError(name)


def random_inputs(
    proto: onnx.ModelProto, seed: int = 0, *, batch: int = 1, low: float = -2.0, high: float = 2.0
) -> dict[str, Array]:
    """Draw an array per graph input, uniform in [low, high); symbolic dimensions are `batch`."""
    random = np.random.default_rng(seed)
    constants = {tensor.name for tensor in proto.graph.initializer}
    arrays: dict[str, Array] = {}
    for value in proto.graph.input:
        if value.name in constants:
            continue
        shape = [dim if isinstance(dim, int) else batch for dim in value_shape(proto, value.name)]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        arrays[value.name] = random.uniform(low, high, shape).astype(dtype)
    return arrays


def run_onnxruntime(proto: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run ONNX Runtime without graph optimizations, and return the outputs by name."""
    # Imported here: building a model must not cost a test the import of the runtime. As Any,
    # because the runtime has no type stubs.
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        with_unsigned_weights(proto).SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
    )
    names = [output.name for output in proto.graph.output]
    answers = session.run(names, dict(inputs))
    return dict(zip(names, answers, strict=True))


def weights(random: np.random.Generator, *shape: int) -> npt.NDArray[np.float32]:
    """Draw normal values; sums over all axes but the first keep the variance of the input."""
    fan_in = max(1, int(np.prod(shape[1:])))
    return (random.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)


def norm_parameters(random: np.random.Generator, channels: int) -> list[npt.NDArray[np.float32]]:
    """Return nontrivial scale, bias, mean and variance of a BatchNormalization."""
    ranges = ((0.5, 1.5), (-0.5, 0.5), (-0.5, 0.5), (0.5, 2.0))
    return [random.uniform(*bounds, channels).astype(np.float32) for bounds in ranges]


def conv_model(
    shape: Sequence[int] = (1, 3, 8, 8),
    outputs: int = 4,
    kernel: Sequence[int] = (3, 3),
    *,
    group: int | None = None,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str | None = None,
    bias: bool = True,
    activation: str | None = None,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build `x -> Conv [-> activation] -> y`; None means ONNX's default of an attribute.

    `pads` has ONNX's order: top, left, bottom, right. `kernel_shape` is derived from the weights.
    """
    random = np.random.default_rng(seed)
    tensors = {"w": weights(random, outputs, shape[1] // (group or 1), *kernel)}
    if bias:
        tensors["b"] = random.uniform(-1, 1, outputs).astype(np.float32)
    conv = node(
        "Conv",
        "x w b" if bias else "x w",
        "y" if activation is None else "c",
        group=group,
        strides=strides,
        pads=pads,
        dilations=dilations,
        auto_pad=auto_pad,
    )
    nodes = [conv] if activation is None else [conv, node(activation, "c", "y")]
    return model(nodes, {"x": shape}, ["y"], tensors)


def gemm_model(
    inputs: int = 5,
    outputs: int = 3,
    *,
    batch: int | str = 1,
    alpha: float | None = None,
    beta: float | None = None,
    trans_a: bool = False,
    trans_b: bool = True,
    bias: Sequence[int] | None = (-1,),
    seed: int = 0,
) -> onnx.ModelProto:
    """Build `x -> Gemm -> y`; `bias` is the shape of C (-1 for `outputs`), or None for no C."""
    random = np.random.default_rng(seed)
    matrix = weights(random, outputs, inputs)
    tensors = {"w": matrix if trans_b else np.ascontiguousarray(matrix.T)}
    if bias is not None:
        shape = [outputs if size == -1 else size for size in bias]
        tensors["b"] = random.uniform(-1, 1, shape).astype(np.float32)
    gemm = node(
        "Gemm",
        "x w" if bias is None else "x w b",
        "y",
        alpha=alpha,
        beta=beta,
        transA=int(trans_a) or None,
        transB=int(trans_b) or None,
    )
    return model([gemm], {"x": (inputs, batch) if trans_a else (batch, inputs)}, ["y"], tensors)


def pool_model(
    op: str = "MaxPool",
    shape: Sequence[int] = (1, 3, 8, 8),
    kernel: Sequence[int] = (2, 2),
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str | None = None,
    ceil_mode: int | None = None,
    count_include_pad: int | None = None,
) -> onnx.ModelProto:
    """Build `x -> MaxPool | AveragePool | GlobalAveragePool -> y`; the last has no attributes."""
    if op.startswith("Global"):
        return model([node(op, "x", "y")], {"x": shape}, ["y"])
    pool = node(
        op,
        "x",
        "y",
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        dilations=dilations,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )
    return model([pool], {"x": shape}, ["y"])


def residual_block(
    channels: int = 8, size: int = 8, *, batch_norm: bool = True, seed: int = 0
) -> onnx.ModelProto:
    """Build `y = Relu(x + [BatchNorm](Conv(x)))`, 3x3."""
    random = np.random.default_rng(seed)
    tensors = {"w": weights(random, channels, channels, 3, 3)}
    nodes = [node("Conv", "x w", "c", pads=[1, 1, 1, 1])]
    branch = "c"
    if batch_norm:
        names = ("scale", "bias", "mean", "var")
        tensors |= zip(names, norm_parameters(random, channels), strict=True)
        nodes.append(node("BatchNormalization", "c scale bias mean var", "n"))
        branch = "n"
    nodes += [node("Add", f"x {branch}", "s"), node("Relu", "s", "y")]
    return model(nodes, {"x": (1, channels, size, size)}, ["y"], tensors)


def silu_block(channels: int = 8, size: int = 8, *, seed: int = 0) -> onnx.ModelProto:
    """Build `c = Conv(x); y = c * Sigmoid(c)`, 3x3."""
    random = np.random.default_rng(seed)
    tensors = {
        "w": weights(random, channels, channels, 3, 3),
        "b": random.uniform(-1, 1, channels).astype(np.float32),
    }
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        node("Sigmoid", "c", "s"),
        node("Mul", "c s", "y"),
    ]
    return model(nodes, {"x": (1, channels, size, size)}, ["y"], tensors)


def mlp(*sizes: int, batch: int | str = 1, softmax: bool = False, seed: int = 0) -> onnx.ModelProto:
    """Build `mlp(3, 40, 40, 3)`: Gemm layers with Relu between; a single size h means 3-h-h-3."""
    random = np.random.default_rng(seed)
    if len(sizes) == 1:
        sizes = (3, *sizes, *sizes, 3)
    nodes: list[onnx.NodeProto] = []
    tensors: dict[str, npt.NDArray[np.float32]] = {}
    value, last = "x", len(sizes) - 2
    for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
        tensors[f"w{layer}"] = weights(random, outputs, inputs)
        tensors[f"b{layer}"] = random.uniform(-0.5, 0.5, outputs).astype(np.float32)
        result = "y" if layer == last and not softmax else f"g{layer}"
        nodes.append(node("Gemm", f"{value} w{layer} b{layer}", result, transB=1))
        value = result
        if layer != last:
            nodes.append(node("Relu", value, f"r{layer}"))
            value = f"r{layer}"
    if softmax:
        nodes.append(node("Softmax", value, "y", axis=-1))
    return model(nodes, {"x": (batch, sizes[0])}, ["y"], tensors)


def concat_branches(
    channels: int = 4, branches: Sequence[int] = (4, 8), size: int = 8, *, seed: int = 0
) -> onnx.ModelProto:
    """Build a 1x1 Conv + Relu for each entry of `branches`, concatenated along channels."""
    random = np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    tensors: dict[str, npt.NDArray[np.float32]] = {}
    for index, outputs in enumerate(branches):
        tensors[f"w{index}"] = weights(random, outputs, channels, 1, 1)
        nodes.append(node("Conv", f"x w{index}", f"c{index}"))
        nodes.append(node("Relu", f"c{index}", f"r{index}"))
    parts = " ".join(f"r{index}" for index in range(len(branches)))
    nodes.append(node("Concat", parts, "y", axis=1))
    return model(nodes, {"x": (1, channels, size, size)}, ["y"], tensors)
