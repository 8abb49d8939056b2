"""The entry `lengths` of a manifest: the shapes of inputs and outputs at each length."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

from xdsl.utils.hints import isa

from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.network.lengths import MAX_LENGTHS, Lengths, Shape, listed
from ceras_ir.network.sample_shapes import SampleShapeError, array_shape, fits
from ceras_ir.support.diagnostics import InputError

LENGTHS = "lengths"
"""The entry of the manifest of a program of several lengths."""

MAX_SHOWN_SHAPES = 6
"""The number of shapes of an input that a message lists."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class LengthTable:
    """The lengths of a program, ascending, and the inputs and outputs at each length."""

    input: str
    """The input that has the length, as the extent of `dimension`."""
    dimension: int
    values: tuple[int, ...]
    inputs: Sequence[Sequence[TensorInfo]]
    outputs: Sequence[Sequence[TensorInfo]]

    @classmethod
    def of(
        cls,
        lengths: Lengths,
        inputs: Sequence[Sequence[TensorInfo]],
        outputs: Sequence[Sequence[TensorInfo]],
    ) -> "LengthTable":
        return cls(lengths.input, lengths.dimension, lengths.values, inputs, outputs)

    def to_json(self) -> dict[str, object]:
        return {
            "input": self.input,
            "dimension": self.dimension,
            "values": list(self.values),
            "inputs": _shapes(self.inputs),
            "outputs": _shapes(self.outputs),
        }

    @classmethod
    def from_manifest(
        cls,
        content: Mapping[str, object],
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
    ) -> "LengthTable | None":
        """
        Return the table of a manifest with these `inputs` and `outputs`, or `None` for a program of
        a single length. Raise an `InputError` for another entry.
        """
        if (entry := content.get(LENGTHS)) is None:
            return None
        error = InputError("has no valid list of lengths; compile again")
        if not isa(entry, dict[str, object]):
            raise error
        name, dimension, values = (entry.get(k) for k in ("input", "dimension", "values"))
        if (
            not isinstance(name, str)
            or not isinstance(dimension, int)
            or not isa(values, list[int])
            or not 1 <= len(values) <= MAX_LENGTHS
            or values != sorted(set(values))
        ):
            raise error
        at_inputs = _at(entry.get("inputs"), inputs, len(values))
        at_outputs = _at(entry.get("outputs"), outputs, len(values))
        if at_inputs is None or at_outputs is None:
            raise error
        return cls(name, dimension, tuple(values), at_inputs, at_outputs)

    def index_of(self, shapes: Mapping[str, Shape]) -> int:
        """Return the index of the length at which the inputs have these shapes."""
        for i, tensors in enumerate(self.inputs):
            if all(shapes.get(t.name, t.shape) == t.shape for t in tensors):
                return i
        raise InputError(self.mismatch(shapes))

    def first_fitting(self, read: Callable[[Sequence[TensorInfo]], Result]) -> tuple[int, Result]:
        """
        Return the index of the largest length whose inputs `read` accepts, and the result of
        `read`. If no length fits, raise an error with the lengths, or an error of `read` about
        anything but shapes.
        """
        wrong: list[SampleShapeError] = []
        other: InputError | None = None
        for i in reversed(range(len(self.values))):
            try:
                return i, read(self.inputs[i])
            except SampleShapeError as error:
                wrong.append(error)
            except InputError as error:
                other = other or error
        if other is not None:
            raise other
        message = self.mismatch({error.name: error.given for error in wrong})
        remedies = [error.remedy for error in wrong if error.has_code] or [wrong[0].remedy]
        raise InputError(message + remedies[0], wrong[0].file)

    def mismatch(self, shapes: Mapping[str, Shape]) -> str:
        """
        Return a message about the `shapes` of arrays, by input, with which no length is possible.
        """
        chosen: dict[str, int] = {}
        for tensors in zip(*self.inputs, strict=True):
            if (given := shapes.get(tensors[0].name)) is None:
                continue
            found = [i for i, t in enumerate(tensors) if _holds(given, t.shape)]
            if not found:
                return self._no_length(tensors, given)
            if len(found) < len(tensors):
                chosen[tensors[0].name] = found[0]
        for (first, i), (second, j) in pairwise(chosen.items()):
            if i != j:
                return (
                    f"array '{first}' has length {self.values[i]} and array '{second}' length "
                    f"{self.values[j]}: all arrays must have the same length"
                )
        return f"a single sample of '{self.input}' is expected, of length {listed(self.values)}"

    def length_of(self, name: str, given: Shape) -> int | None:
        """Return the length at which an array of shape `given` holds samples of the input."""
        for value, tensors in zip(self.values, self.inputs, strict=True):
            if any(t.name == name and _holds(given, t.shape) for t in tensors):
                return value
        return None

    def _no_length(self, tensors: Sequence[TensorInfo], given: Shape) -> str:
        """Return a message about an array of shape `given`, which the input has at no length."""
        name, shapes = tensors[0].name, [t.shape for t in tensors]
        columns = [sorted(set(extents)) for extents in zip(*shapes, strict=True)]
        varying = [d for d, extents in enumerate(columns) if len(extents) > 1]
        start = f"array '{name}' has shape {list(given)}, expected"
        if len(varying) != 1:
            texts = list(dict.fromkeys(map(array_shape, shapes)))
            more = ", ..." if len(texts) > MAX_SHOWN_SHAPES else ""
            return f"{start} {' or '.join(texts[:MAX_SHOWN_SHAPES])}{more}"
        d, extents = varying[0], columns[varying[0]]
        at = d - len(shapes[0])
        if -at <= len(given):
            extent = given[at]
            if _holds(given, (*shapes[0][:d], extent, *shapes[0][d + 1 :])):
                if tuple(extents) == self.values:
                    return f"array '{name}' has length {extent}; the lengths are {listed(extents)}"
                return (
                    f"array '{name}' has {extent} in dimension {d}; the lengths permit "
                    f"{listed(extents)}"
                )
        return f"{start} {array_shape((*shapes[0][:d], 'L', *shapes[0][d + 1 :]))}, with L in " + (
            listed(extents)
        )


def _holds(given: Shape, shape: Shape) -> bool:
    """Return whether an array of shape `given` holds one or more samples of an input of `shape`."""
    return given == shape or fits(given, shape) or (given[1:] == shape and len(given) > 0)


def _shapes(tensors: Sequence[Sequence[TensorInfo]]) -> dict[str, list[list[int]]]:
    return {
        column[0].name: [list(tensor.shape) for tensor in column]
        for column in zip(*tensors, strict=True)
    }


def _at(entry: object, tensors: Sequence[TensorInfo], count: int) -> list[list[TensorInfo]] | None:
    """Return the tensors at each of `count` lengths, or `None` for an invalid entry."""
    if not isa(entry, dict[str, list[list[int]]]):
        return None
    for tensor in tensors:
        shapes = entry.get(tensor.name, [])
        if len(shapes) != count or any(e < 1 for shape in shapes for e in shape):
            return None
        if tuple(shapes[-1]) != tensor.shape:
            return None
    return [[replace(t, shape=tuple(entry[t.name][i])) for t in tensors] for i in range(count)]
