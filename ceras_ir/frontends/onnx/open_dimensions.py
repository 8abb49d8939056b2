"""
Dimensions of inputs that a model leaves open, with equal symbols as one dimension, and extents to
begin with.
"""

from collections.abc import Container, Mapping, Sequence

import onnx
from xdsl.dialects.builtin import f32

from ceras_ir.frontends.onnx.signature import ELEMENTS, symbol_of
from ceras_ir.frontends.onnx.tensors import text

PICTURE, SOUND, SEQUENCE = 224, 512, 16
"""Extents to begin with: sides of pictures, samples of sound, steps of sequences."""


class OpenDimensions:
    """
    The open dimensions of the inputs of `graph` that are not `fixed`. `shapes` are those that the
    user gave, and `batch` is the extent of a first dimension.
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
        """The extents at hand, or guesses, by the name of the dimension."""
        self.given: set[str] = set()
        """The dimensions that the user gave."""
        self.guessed: set[str] = set()
        """The dimensions that are neither given nor a batch."""
        self.pictures: list[tuple[str, str]] = []
        """Pairs of dimensions that are probably height and width."""
        self.fixed: list[int] = []
        """The extents that the model declares."""
        self.batches = {name for v in self._inputs if _dims(v) and (name := _name(v, 0))}
        """The dimensions that are the first ones of inputs."""
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
        """Whether all open dimensions are first ones."""
        return self.batches.issuperset(self.start)

    def shapes(self, extents: Mapping[str, int]) -> Mapping[str, Sequence[int]]:
        """The shapes of the inputs with open dimensions, which have these extents."""
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
    """The name of an open dimension: the symbol, if there is one; empty for a known dimension."""
    dim = _dims(value)[index]
    return "" if dim.dim_value > 0 else symbol_of(dim) or f"{value.name}[{index}]"


def _usual(value: onnx.ValueInfoProto) -> Sequence[int]:
    """Extents that are usual for an input of this rank and type, the declared ones included."""
    dims = _dims(value)
    is_open = [dim.dim_value <= 0 for dim in dims]
    usual, extent = {0: 1}, SEQUENCE
    if len(dims) == 4 and (is_open[1] or is_open[3]):
        extent = PICTURE
        if not is_open[1] or is_open[3]:
            usual[1] = 3
    elif len(dims) == 3 and not is_open[0] and is_open[1] and not is_open[2]:
        usual[1] = 1  # States of recurrent layers: [layers, batch, size].
    elif len(dims) == 2 and ELEMENTS.get(value.type.tensor_type.elem_type) == f32:
        extent = SOUND
    return [usual.get(i, extent) if free else dims[i].dim_value for i, free in enumerate(is_open)]
