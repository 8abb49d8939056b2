"""
What int8 costs at the outputs of a network, one layer at a time.

The float network runs once on each sample and every value is kept. Then, for one layer after
the other, its value is replaced by what int8 makes of it, and what depends on it is computed
again: the difference at the outputs is the noise of this layer alone. What 16 bits save is
the rounding of the value; what float saves is the rounding of weights, because the next layer
reads integers again. Noises of several layers are taken to add, which independent ones do.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import input_names, main_function, result_values
from ceras_ir.network.integer import dequantize, quantize
from ceras_ir.network.precision import WIDE, width
from ceras_ir.network.quantizable import computes, joins, keeps_scale, quantized_operations
from ceras_ir.network.ranges import exponent
from ceras_ir.network.storage import Storage
from ceras_ir.support.diagnostics import node_name
from ceras_ir.support.progress import progress
from ceras_ir.transforms.quantization.analysis.output_noise import score

MEASURE = 8
"""On how many samples layers are measured at most."""

WORK = 20_000_000_000
"""Multiplications that measuring may take; large networks are measured on fewer samples."""

Array = NDArray[np.generic]
Sample = Mapping[str, Array]
Change = Callable[[SSAValue, Array, Mapping[SSAValue, Array]], Array]
"""What becomes of a value, given those before it."""


@dataclass
class Sensitivity:
    """One layer, or input, and what it costs to have it in int8."""

    name: str
    value: SSAValue
    macs: int
    """Multiplications that another precision would touch."""
    in_float: bool
    """Whether that precision is float, 16 bits otherwise."""
    noise: float = 0.0
    """Power of the error over that of the signal, the mean over all outputs."""


def multiplications(main: FuncOp) -> int:
    """Of one inference."""
    return sum(op.macs for op in main.body.block.ops if isinstance(op, graph.LinearOperation))


def affordable_samples(main: FuncOp, layers: int) -> int:
    """On how many samples so many layers may be measured; each takes half an inference."""
    return max(1, min(MEASURE, WORK // max(multiplications(main) * layers // 2, 1)))


def candidates(main: FuncOp, *, in_float: bool) -> list[Sensitivity]:
    """
    The values that int8 rounds: results of what computes, concatenations and inputs. In 16 bits
    a value touches the products that read it; a layer in float touches its own, and only those
    with products are taken.
    """
    ops = quantized_operations(main)
    found: list[Sensitivity] = []
    if in_float:
        layers = [op for op in ops if isinstance(op, graph.LinearOperation)]
        return [Sensitivity(node_name(op), op.result, op.macs, in_float) for op in layers]
    for argument, name in zip(main.body.block.args, input_names(main), strict=True):
        if any(use.operation in ops for use in argument.uses):
            found.append(Sensitivity(name, argument, _read_by(argument, ops), in_float))
    for op in ops:
        if computes(op) or joins(op):
            value = op.results[0]
            found.append(Sensitivity(node_name(op), value, _read_by(value, ops), in_float))
    return [s for s in found if width(s.value) != WIDE and exponent(s.value) is not None]


def _read_by(value: SSAValue, ops: Mapping[Operation, None]) -> int:
    """Multiplications that read a value, moved by poolings and the like or not."""
    total, left, seen = 0, [value], {value: None}
    while left:
        for use in left.pop().uses:
            op = use.operation
            if isinstance(op, graph.LinearOperation) and use.index == 0:
                total += op.macs
            elif op in ops and keeps_scale(op) and op.results[0] not in seen:
                seen[op.results[0]] = None
                left.append(op.results[0])
    return total


@dataclass(frozen=True)
class InInt8:
    """What becomes of a float network where all is in int8."""

    weights: Mapping[Operation, NDArray[np.float32]]
    """Of layers with constant ones, rounded."""
    storages: Mapping[SSAValue, Storage]
    """Of values, after scales were aligned."""


class SensitivityMeter:
    """Runs a float network with single values changed, to what int8 makes of them or else."""

    def __init__(self, module: ModuleOp, stored: InInt8 | None = None, *, scores: bool = False):
        self.main = main_function(module)
        self.stored = stored or InInt8({}, {})
        self.ops = [op for op in self.main.body.block.ops if op.results]
        self.outputs = result_values(self.main)
        if scores:
            self.outputs = [score(value) for value in self.outputs]
        self.interpreter = interpreter_of(module)

    def measure(self, layers: Sequence[Sensitivity], samples: Iterable[Sample]) -> int:
        """Add the noise of every layer on every sample; returns how many samples there were."""
        count = 0
        for count, sample in enumerate(samples, 1):
            with np.errstate(all="ignore"):
                known = self.forward(sample)
                for layer in progress(layers, f"layers, sample {count}"):
                    layer.noise += self.reaching(layer.value, self._in_int8(layer, known), known)
        for layer in layers:
            layer.noise /= max(count, 1)
        return count

    def forward(self, sample: Sample, change: Change | None = None) -> dict[SSAValue, Array]:
        """Every value of the network on a sample, each what `change` makes of it."""
        known: dict[SSAValue, Array] = {}
        for name, argument in zip(input_names(self.main), self.main.body.block.args, strict=True):
            known[argument] = np.asarray(sample[name])
            if change is not None:
                known[argument] = change(argument, known[argument], known)
        for op in self.ops:
            for value, array in self._run(op, [known[v] for v in op.operands]).items():
                known[value] = array if change is None else change(value, array, known)
        return known

    def _run(self, op: Operation, operands: Sequence[Array]) -> dict[SSAValue, Array]:
        results = self.interpreter.run_op(op, tuple(operands))
        return dict(zip(op.results, results, strict=True))

    def reaching(self, value: SSAValue, array: Array, known: Mapping[SSAValue, Array]) -> float:
        """
        What the outputs lose if one value becomes `array`: power of the error over that of the
        signal, the mean over all outputs.
        """
        changed = {value: array}
        for op in self.ops:
            if value.owner is not op and any(v in changed for v in op.operands):
                operands = [changed.get(v, known[v]) for v in op.operands]
                changed |= self._run(op, operands)
        shares = [noise_share(changed.get(v, known[v]), known[v]) for v in self.outputs]
        return sum(shares) / len(shares)

    def _in_int8(self, layer: Sensitivity, known: Mapping[SSAValue, Array]) -> Array:
        """The value of a layer after the rounding that another precision would save."""
        op = layer.value.owner
        if layer.in_float and isinstance(op, graph.LinearOperation):
            weights = self.stored.weights.get(op, known[op.weights])
            operands = [weights if v is op.weights else known[v] for v in op.operands]
            return self._run(op, operands)[layer.value]
        element = self.stored.storages[layer.value].element
        return dequantize(quantize(known[layer.value].astype(np.float32), element), element)


def noise_share(changed: Array, known: Array) -> float:
    """Power of an error over that of the signal."""
    real = known.astype(np.float64)
    signal = float(np.square(real).sum())
    return float(np.square(changed.astype(np.float64) - real).sum()) / max(signal, 1e-300)
