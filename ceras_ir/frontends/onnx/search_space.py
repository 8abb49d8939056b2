"""
Define the options that a search may try: extents of open dimensions, and values of small inputs.

Equal symbols are a single dimension. Candidate values of an input that decides a branch or a size
are the constants that the model compares the input with, declared extents, and small integers.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from math import prod

import numpy as np
import onnx
from xdsl.dialects.builtin import f32

from ceras_ir.frontends.onnx.model.model_file import TENSOR_DTYPES, tensor_array, text
from ceras_ir.frontends.onnx.model.signature import ELEMENT_TYPES, symbol_of

PICTURE_SIDE, SOUND_SAMPLES, SEQUENCE_STEPS = 224, 512, 16
"""Initial extents: sides of pictures, samples of sound, steps of sequences."""


class OpenDimensions:
    """
    The dimensions of inputs that the model leaves open. `shapes` are given by the user, `batch` is
    the extent of first dimensions, and inputs in `fixed` are constants.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        shapes: Mapping[str, Sequence[int]],
        batch: int,
        fixed: Container[str],
    ):
        initializers = {text(tensor.name) for tensor in graph.initializer}
        self._inputs = [
            value
            for value in graph.input
            if value.name not in initializers
            and value.name not in fixed
            and value.type.tensor_type.HasField("shape")
        ]
        self.start: dict[str, int] = {}
        """The extents to begin with, by the name of the dimension."""
        self.given: set[str] = set()
        """The dimensions that the user gave."""
        self.guessed: set[str] = set()
        """The dimensions that are neither given nor a batch."""
        self.pictures: list[tuple[str, str]] = []
        """Pairs of dimensions that are probably height and width."""
        self.fixed: list[int] = []
        """The extents that the model declares."""
        self.batches = {name for v in self._inputs if _dims(v) and (name := _name(v, 0))}
        """The first dimensions of inputs."""
        for value in self._inputs:
            for i in range(len(_dims(value))):
                if (name := _name(value, i)) and value.name in shapes:
                    self.start[name] = shapes[value.name][i]
                    self.given.add(name)
                elif name in self.batches:
                    self.start.setdefault(name, batch)
        for value in self._inputs:
            names = [_name(value, i) for i in range(len(_dims(value)))]
            for name, dim, extent in zip(names, _dims(value), _usual(value), strict=True):
                if name and dim.HasField("dim_value") and dim.dim_value == 0:
                    self.start.setdefault(name, 0)
                elif name:
                    if name not in self.start:
                        self.guessed.add(name)
                    self.start.setdefault(name, extent)
                elif dim.dim_value > 1:
                    self.fixed.append(dim.dim_value)
            if len(names) == 4:
                pair = names[1:3] if names[1] and not names[3] else names[2:]
                if all(pair) and pair[0] != pair[1]:
                    self.pictures.append((pair[0], pair[1]))

    @property
    def are_batches(self) -> bool:
        """Whether all open dimensions are the first dimension of an input."""
        return self.batches.issuperset(self.start)

    def shapes(self, extents: Mapping[str, int]) -> Mapping[str, Sequence[int]]:
        """
        Return the shapes of the inputs with open dimensions, if these have the given `extents` (by
        name of the dimension).
        """
        found: dict[str, Sequence[int]] = {}
        for value in self._inputs:
            names = [_name(value, i) for i in range(len(_dims(value)))]
            if any(names):
                pairs = zip(names, _dims(value), strict=True)
                found[value.name] = [extents[name] if name else d.dim_value for name, d in pairs]
        return found


def _dims(value: onnx.ValueInfoProto) -> Sequence[onnx.TensorShapeProto.Dimension]:
    return value.type.tensor_type.shape.dim


def _name(value: onnx.ValueInfoProto, index: int) -> str:
    """
    Return the symbol of dimension `index`, or a name such as `x[1]`; "" if the dimension is not
    open.
    """
    dim = _dims(value)[index]
    return "" if dim.dim_value > 0 else symbol_of(dim) or f"{value.name}[{index}]"


def _usual(value: onnx.ValueInfoProto) -> Sequence[int]:
    """
    Return an extent for each dimension: the declared extent, or a usual extent for an open
    dimension in an input of this rank and type, such as 224 for images.
    """
    dims = _dims(value)
    is_open = [dim.dim_value <= 0 for dim in dims]
    usual, extent = {0: 1}, SEQUENCE_STEPS
    if len(dims) == 4 and (is_open[1] or is_open[3]):
        extent = PICTURE_SIDE
        if not is_open[1] or is_open[3]:
            usual[1] = 3
    elif len(dims) == 3 and not is_open[0] and is_open[1] and not is_open[2]:
        usual[1] = 1  # States of recurrent layers: [layers, batch, size].
    elif len(dims) == 2 and ELEMENT_TYPES.get(value.type.tensor_type.elem_type) == f32:
        extent = SOUND_SAMPLES
    return [usual.get(i, extent) if free else dims[i].dim_value for i, free in enumerate(is_open)]


DECIDING_OPERATORS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Mod", "Sub")
"""Operators with a constant operand that may decide a condition."""

SMALL_INTEGERS = (1, 2, 4, 8, 16, 0, 3, 5, 6, 7, 10, 12)
"""Integers that are tried last."""

PICTURE_RANK = 4

MAX_VALUES_PER_INPUT = 32
"""Maximum number of values that are tried for an input."""


def candidate_values(graph: onnx.GraphProto, name: str) -> Sequence[Sequence[float]]:
    """
    Return values to try for the input `name`: each is a number for all elements, or a list of
    numbers.
    """
    value = next(value for value in graph.input if value.name == name)
    kind = value.type.tensor_type
    if kind.elem_type == onnx.TensorProto.BOOL:
        return [(1,), (0,)]
    is_float = (dtype := TENSOR_DTYPES.get(kind.elem_type)) is not None and dtype.kind == "f"
    count = prod(max(dim.dim_value, 1) for dim in kind.shape.dim)
    found: dict[Sequence[float], None] = dict.fromkeys(_neutral(graph, name))
    for number in _compared(graph, {name}, {}):
        found.update(dict.fromkeys([(number,), (number + 1,), (number - 1,)]))
    shapes = [list(shape) for shape in _declared(graph, name)]
    small = [(number,) for number in SMALL_INTEGERS]
    if count > 1:
        found.update((tuple(shape), None) for shape in shapes if len(shape) == count)
        # Floats are rather scales than sizes.
        found.update(dict.fromkeys(small if is_float else []))
        if count == 2:
            found.update((sides, None) for shape in shapes for sides in _sides_of_picture(shape))
        found.update(dict.fromkeys(small))
        parts = (extent // count for shape in shapes for extent in shape if extent % count == 0)
        found.update(((part,), None) for part in parts)
        found[(*(1 for _ in range(count - 1)), -1)] = None
    else:
        found.update(((extent,), None) for shape in shapes for extent in shape)
    found.update(dict.fromkeys(small))
    kept = [v for v in found if is_float or all(float(n).is_integer() for n in v)]
    return kept[:MAX_VALUES_PER_INPUT]


def _neutral(graph: onnx.GraphProto, name: str) -> Iterator[Sequence[float]]:
    """
    Yield values of the input `name` with which a Pad or a Resize that has it as an operand changes
    nothing: no padding, scales of 1, or the declared shape of the data as sizes.
    """
    shapes = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.value_info)
    }
    for node in graph.node:
        operands = [*node.input, *("",) * 4]
        if node.op_type == "Pad" and operands[1] == name:
            yield (0,)
        elif node.op_type in ("Resize", "Upsample") and name in (operands[1], operands[2]):
            yield (1,)
        elif node.op_type == "Resize" and operands[3] == name:
            shape = shapes.get(operands[0], ())
            if shape and all(extent > 0 for extent in shape):
                yield shape


def _sides_of_picture(shape: Sequence[int]) -> Sequence[tuple[int, int]]:
    """
    Return the possible pairs of height and width of an input with four dimensions: for NCHW and for
    NHWC. Return [] for another rank.
    """
    return [] if len(shape) != PICTURE_RANK else [(shape[2], shape[3]), (shape[1], shape[2])]


def _declared(graph: onnx.GraphProto, other: str) -> Iterator[Sequence[int]]:
    """
    Yield the declared shapes of the outputs, and of the inputs except `other`, that have no open
    dimensions.
    """
    for value in (v for v in (*graph.output, *graph.input) if v.name != other):
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if dims and all(dim > 0 for dim in dims):
            yield dims


def _compared(
    graph: onnx.GraphProto, reached: set[str], outer: Mapping[str, float]
) -> Iterator[float]:
    """
    Yield the constants with which the model compares the values in `reached` or values that depend
    on them, in the order of the nodes. `outer` has scalar constants of the outer graph.
    """
    numbers = dict(outer)
    for tensor in graph.initializer:
        numbers.update(_number(text(tensor.name), tensor))
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    numbers.update(_number(text(node.output[0]), attribute.t))
        if reached.intersection(node.input):
            reached.update(filter(None, node.output))
            if node.op_type in DECIDING_OPERATORS:
                yield from (numbers[name] for name in node.input if name in numbers)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _compared(attribute.g, reached, numbers)


def _number(name: str, tensor: onnx.TensorProto) -> Mapping[str, float]:
    if prod(tensor.dims) != 1 or tensor.data_type not in TENSOR_DTYPES or tensor.external_data:
        return {}
    try:
        array = tensor_array(tensor, None)
    except ValueError:
        return {}
    number = float(np.asarray(array, np.float64).item())
    return {name: number} if np.isfinite(number) else {}
