"""
A network on several samples at once, one operation after the other.

What comes between two operations can look at values of all samples, and change the operations
that follow. A value is kept until its last reader has run.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import input_names, main_function
from ceras_ir.network.integer import dequantize

Array = NDArray[np.generic]


class Stepwise:
    """Runs the operations that it is given, in the order of the network."""

    def __init__(self, module: ModuleOp, samples: Iterable[Mapping[str, Array]]):
        main = main_function(module)
        self.interpreter = interpreter_of(module)
        self.values: dict[SSAValue, list[Array]] = {a: [] for a in main.body.block.args}
        self.left: dict[SSAValue, int] = {a: a.uses.get_length() for a in main.body.block.args}
        for sample in samples:
            for name, argument in zip(input_names(main), main.body.block.args, strict=True):
                self.values[argument].append(np.asarray(sample[name]))
        self.count = min(map(len, self.values.values()), default=0)

    def run(self, op: Operation) -> None:
        """Run one operation on all samples; terminators and constants have nothing to run."""
        if not op.results or isinstance(op, graph.ConstantOp):
            return
        for result in op.results:
            self.values[result], self.left[result] = [], result.uses.get_length()
        operands = [self[value] for value in op.operands]
        with np.errstate(all="ignore"):
            for i in range(self.count):
                made = self.interpreter.run_op(op, tuple(arrays[i] for arrays in operands))
                for result, array in zip(op.results, made, strict=True):
                    self.values[result].append(array)
        for value in op.operands:
            if value in self.values:
                self.left[value] -= 1
                if self.left[value] == 0:
                    del self.values[value]

    def __getitem__(self, value: SSAValue) -> Sequence[Array]:
        """What a value is on every sample."""
        if isinstance(value.owner, graph.ConstantOp):
            return [value.owner.array()] * self.count
        return self.values[value]

    def real(self, value: SSAValue) -> list[NDArray[np.float32]]:
        """What it stands for."""
        element = graph.quantized_element(value)
        if element is None:
            return [array.astype(np.float32, copy=False) for array in self[value]]
        return [dequantize(array, element) for array in self[value]]
