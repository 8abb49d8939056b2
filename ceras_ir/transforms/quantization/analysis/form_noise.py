"""
What the forms of functions cost at the outputs of a calibrated float network.

A form rounds the argument of its function, and may compute another function than the exact one.
The rounding of the result is the same for all forms: it is left out of the noise of one function
alone, and part of the noise of all, which single ones are held against.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.interpreters.swish import shift_swish
from ceras_ir.network.precision import NARROW, limits
from ceras_ir.network.ranges import exponent, missing_range
from ceras_ir.network.storage import Storage
from ceras_ir.support.progress import progress
from ceras_ir.transforms.quantization.analysis.function_forms import (
    Form,
    argument_exponent,
    finer_bits,
    shift_bends,
)
from ceras_ir.transforms.quantization.analysis.output_noise import Outputs, ratio_of
from ceras_ir.transforms.quantization.analysis.sensitivity import (
    Array,
    Change,
    Sample,
    SensitivityMeter,
    candidates,
)

Forms: TypeAlias = Mapping[graph.UnaryOp, Form]


@dataclass
class FormNoise:
    """What the form of one function alone adds to the outputs; means over samples and outputs."""

    offered: float = 0.0
    """Of the form that it was offered; only measured of those that compute another function."""
    table: float = 0.0
    """Of a table on int8."""


class FormMeter(SensitivityMeter):
    """Runs a float network whose functions have the forms that they might have in integers."""

    def __init__(self, module: ModuleOp, samples: Sequence[Sample]):
        super().__init__(module, scores=True)
        found = (layer.value for layer in candidates(self.main, in_float=False))
        self.storages = {v: Storage(e) for v in found if (e := exponent(v)) is not None}
        self.samples = samples
        self.expected = [self._outputs(sample) for sample in samples]
        self.measured: dict[frozenset[tuple[graph.UnaryOp, Form]], float] = {}

    def alone(self, forms: Forms) -> dict[graph.UnaryOp, FormNoise]:
        """The noise of every function by itself, in the form it was offered and as a table."""
        found = {op: FormNoise() for op in forms}
        for number, sample in enumerate(self.samples, 1):
            with np.errstate(all="ignore"):
                known = self.forward(sample)
            for op, noise in progress(found.items(), f"functions, sample {number}", len(found)):
                noise.table += self._reaching(op, Form.TABLE, known) / len(self.samples)
                if forms[op] is Form.SHIFTS:
                    noise.offered += self._reaching(op, Form.SHIFTS, known) / len(self.samples)
        return found

    def together(self, forms: Forms) -> float:
        """The noise of all functions in these forms, where all other values are in int8."""
        key = frozenset(forms.items())
        if key not in self.measured:
            self.measured[key] = self._together(forms)
        return self.measured[key]

    def _together(self, forms: Forms) -> float:
        arguments = {op.input for op in forms}

        def change(value: SSAValue, array: Array, known: Mapping[SSAValue, Array]) -> Array:
            op = value.owner
            if isinstance(op, graph.UnaryOp) and op in forms:
                array = self._computed(op, forms[op], known[op.input])
            if value in arguments or (storage := self.storages.get(value)) is None:
                return array
            return _stored(array, storage) * np.float32(2.0**storage.exponent)

        actual = [self._outputs(sample, change) for sample in self.samples]
        return 10 ** (-ratio_of(self.expected, actual) / 10)

    def _outputs(self, sample: Sample, change: Change | None = None) -> Outputs:
        with np.errstate(all="ignore"):
            known = self.forward(sample, change)
        return {str(number): known[value] for number, value in enumerate(self.outputs)}

    def _reaching(self, op: graph.UnaryOp, form: Form, known: Mapping[SSAValue, Array]) -> float:
        with np.errstate(all="ignore"):
            return self.reaching(op.result, self._computed(op, form, known[op.input]), known)

    def _computed(self, op: graph.UnaryOp, form: Form, argument: Array) -> Array:
        """The result of a function in a form, before it is rounded."""
        known = argument_exponent(op, form)
        if known is None:
            raise missing_range(op.input)
        stored = _stored(argument, Storage(known, NARROW + finer_bits(form)))
        if form is not Form.SHIFTS:
            return self._run(op, [stored * np.float32(2.0**known)])[op.result]
        bends = np.array(shift_bends(op, known)).reshape(-1, 5).tolist()
        return (shift_swish(stored.astype(np.int64), bends) * 2.0**known).astype(np.float32)


def _stored(array: Array, storage: Storage) -> NDArray[np.float32]:
    """The integers that stand for an array."""
    scaled = np.rint(array.astype(np.float32, copy=False) * np.float32(2.0**-storage.exponent))
    return np.clip(scaled, *limits(storage.bits))
