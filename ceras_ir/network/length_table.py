"""The entry `lengths` of a manifest: the shapes of inputs and outputs at each length."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from xdsl.utils.hints import isa

from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.network.lengths import MAX_LENGTHS, Lengths, Shape, listed
from ceras_ir.support.diagnostics import InputError

LENGTHS = "lengths"
"""The entry of the manifest of a program of several lengths."""

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
        shape = list(shapes.get(self.input, ()))
        raise InputError(f"input '{self.input}' has shape {shape}: {self.rule}")

    def first_fitting(self, read: Callable[[Sequence[TensorInfo]], Result]) -> tuple[int, Result]:
        """
        Return the index of the largest length whose inputs `read` accepts, and the result of
        `read`. If no length fits, the error of the largest is raised, with the lengths.
        """
        first: InputError | None = None
        for i in reversed(range(len(self.values))):
            try:
                return i, read(self.inputs[i])
            except InputError as error:
                first = first or error
        assert first is not None
        raise InputError(f"{first.message}; {self.rule}", first.file)

    @property
    def rule(self) -> str:
        """The lengths, as part of a message."""
        return f"dimension {self.dimension} of '{self.input}' must be in {listed(self.values)}"


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
