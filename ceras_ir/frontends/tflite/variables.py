"""
Keep the variables of a network between calls, as states: an argument and a result for each.

A call of `CALL_ONCE` initializes variables by constants. A state starts from zeros, so these must
be zeros too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DictionaryAttr, StringAttr, TensorType
from xdsl.ir import Block, SSAValue

from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.values import name_loc
from ceras_ir.frontends.tflite.model.flatbuffer import damaged
from ceras_ir.frontends.tflite.model.schema import Model, Tensor
from ceras_ir.network.function import NAME, STATE
from ceras_ir.support.diagnostics import Finding, UnsupportedError

MAX_VARIABLES = 1024


@dataclass
class Variables:
    """
    The variables of a network, which become states. `initial` has their values before the first
    call, and `current` the IR values at the current operator.
    """

    block: Block
    initial: dict[str, NDArray[np.generic]] = field(default_factory=dict[str, NDArray[np.generic]])
    current: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    arguments: list[DictionaryAttr] = field(default_factory=list[DictionaryAttr])
    names: list[str] = field(default_factory=list[str])
    """The variables that are arguments of the network, in order."""

    def initialize(self, model: Model, index: int) -> None:
        """
        Record the constants that subgraph `index`, which a CALL_ONCE names, assigns to variables.
        """
        graph, handles = model.subgraph(index), dict[int, str]()
        for op in graph.operators:
            if op.name == "VAR_HANDLE" and op.outputs:
                handles[op.outputs[0]] = op.options.text(1)
            elif op.name == "ASSIGN_VARIABLE" and len(op.inputs) == 2 and op.inputs[0] in handles:
                value = graph.tensors[op.inputs[1]]
                if value.data is not None:
                    self.initial[handles[op.inputs[0]]] = value.array()
            else:
                raise UnsupportedError(
                    [Finding(op.name, op.name, f"unsupported {op.name} in an initialization")]
                )

    def read(self, name: str, tensor: Tensor) -> SSAValue:
        """
        Return the current value of the variable `name`. The first read adds an argument of the type
        of `tensor` to the network.
        """
        if name not in self.current:
            if len(self.names) >= MAX_VARIABLES:
                raise damaged(f"more than {MAX_VARIABLES} variables")
            self._check_initial(name, tensor)
            kind = TensorType(tensor.element, tensor.shape)
            argument = self.block.insert_arg(kind, len(self.block.args))
            argument.location = name_loc(name)
            entries = {NAME: StringAttr(name), STATE: StringAttr(self.result_name(name))}
            self.arguments.append(DictionaryAttr(entries))
            self.names.append(name)
            self.current[name] = argument
        return self.current[name]

    def _check_initial(self, name: str, tensor: Tensor) -> None:
        element = tensor.element
        zero = element.zero_point if isinstance(element, UniformType) else 0
        if (self.initial.get(name, np.array(zero)) != zero).any():
            message = "unsupported initial values other than 0; pass the state as an input"
            raise UnsupportedError([Finding(name, "VAR_HANDLE", message)])

    @staticmethod
    def result_name(name: str) -> str:
        """
        Return the name of the network output that has the value of a variable for the next call.
        """
        return f"{name}/next"
