"""Emit the operators of a subgraph in order: of the network, or of a branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from xdsl.ir import SSAValue

from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.values import Constant, Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.tflite.model.flatbuffer import damaged
from ceras_ir.frontends.tflite.model.schema import ABSENT, Model, Operator, Tensor
from ceras_ir.frontends.tflite.operation import OPERATORS, Operation, Stored, expect_type
from ceras_ir.frontends.tflite.variables import Variables
from ceras_ir.support.diagnostics import Finding, UnsupportedError

MAX_DEPTH, MAX_BRANCHES = 16, 1 << 10
"""
The maximum depth of branches in branches, and their maximum number. A damaged file may nest them
without end.
"""


@dataclass
class Budget:
    """
    The number of branches (subgraphs of IF) that may still be emitted, so that a hostile file does
    not cause much work.
    """

    left: int = MAX_BRANCHES


class Scope:
    """
    A subgraph of a TensorFlow Lite model whose operators are emitted, with the values of the
    tensors.
    """

    def __init__(
        self,
        model: Model,
        index: int,
        emitter: Emitter,
        variables: Variables,
        *,
        has_declared_shapes: bool,
        depth: int = 0,
        budget: Budget | None = None,
    ):
        self.model, self.index = model, index
        self.graph = model.subgraph(index)
        self.emitter, self.variables = emitter, variables
        self.has_declared_shapes = has_declared_shapes
        """Whether results must have the shapes that the file declares."""
        self.depth = depth
        self.budget = budget or Budget()
        self.values: dict[int, Value] = {}
        self.constants: dict[int, SSAValue] = {}

    def emit(self) -> None:
        """Emit all operators. The unsupported operators are reported together, in one error."""
        self._add_constants()
        refused: list[Finding] = []
        missing: set[int] = set()
        for operator in self.graph.operators:
            if missing.intersection(operator.inputs):
                missing.update(operator.outputs)
                continue
            try:
                self._emit(operator)
            except UnsupportedError as error:
                refused += error.findings
                missing.update(operator.outputs)
        if refused:
            raise UnsupportedError(refused)

    def inlined(self, index: int, operands: Sequence[Value]) -> Sequence[Value]:
        """
        Emit subgraph `index` with the values `operands` of the inputs, and return the results.
        """
        if self.depth >= MAX_DEPTH:
            raise damaged(f"more than {MAX_DEPTH} branches in each other")
        if self.budget.left <= 0:
            raise damaged(f"more than {MAX_BRANCHES} branches")
        self.budget.left -= 1
        inner = Scope(
            self.model,
            index,
            self.emitter,
            self.variables,
            has_declared_shapes=self.has_declared_shapes,
            depth=self.depth + 1,
            budget=self.budget,
        )
        if len(inner.graph.inputs) != len(operands):
            raise damaged(f"{len(operands)} operands for {len(inner.graph.inputs)} of a branch")
        inner.values.update(zip(inner.graph.inputs, operands, strict=True))
        outer = self.emitter.node
        inner.emit()
        self.emitter.node = outer
        if missing := [i for i in inner.graph.outputs if i not in inner.values]:
            raise damaged(f"the result '{inner.graph.tensors[missing[0]].name}' is not computed")
        return [inner.values[i] for i in inner.graph.outputs]

    def _add_constants(self) -> None:
        for index, tensor in enumerate(self.graph.tensors):
            if tensor.data is None or index in self.values:
                continue
            # The type is checked when it is used: filters of zeros may have a scale of 0.
            if tensor.has_quantized_element:
                self.values[index] = Stored(
                    tensor.name,
                    tensor.shape,
                    tensor.dtype,
                    tensor.array,
                    kind=lambda tensor=tensor: tensor.element,
                )
            else:
                key = (self.index, index)
                self.values[index] = Constant(
                    tensor.name, tensor.shape, tensor.dtype, tensor.array, key
                )

    def _emit(self, operator: Operator) -> None:
        tensors = self.graph.tensors
        outputs = [i for i in operator.outputs if i != ABSENT]
        name = tensors[outputs[0]].name.partition(";")[0] if outputs else operator.name
        self.emitter.node = Node(onnx.NodeProto(name=name, op_type=operator.name), 0)
        operation = Operation(
            operator,
            self.graph,
            self.emitter,
            self.values,
            self.constants,
            self.variables,
            self.model,
            self.inlined,
        )
        importer = OPERATORS.get(operator.name)
        if importer is None:
            kind = "a custom operator, which" if operator.is_custom else "an operator that"
            raise operation.unsupported(
                f"{kind} is not imported; end the network before it, or convert it without"
            )
        # Scales of a damaged file may overflow; the factors are checked.
        with np.errstate(all="ignore"):
            found = importer(operation)
        results = [found] if isinstance(found, SSAValue | Constant) else list(found)
        if len(results) < len(outputs):
            raise operation.wrong(f"has {len(outputs)} results, expected {len(results)}")
        for index, value in zip(operator.outputs, results, strict=False):
            if index == ABSENT:
                continue
            if tensors[index].data is not None or index in self.graph.inputs:
                raise operation.wrong(f"computes '{tensors[index].name}', which is given")
            self._check_result(operation, tensors[index], value)
            self.values[index] = value

    def _check_result(self, operation: Operation, tensor: Tensor, value: Value) -> None:
        if self.has_declared_shapes and tensor.shape:
            shape = shape_of_value(value)
            if shape != tensor.shape and not tensor.open_dimensions:
                raise operation.wrong(
                    f"the result '{tensor.name}' has shape {list(shape)}, but the file declares "
                    f"{list(tensor.shape)}"
                )
        expect_type(operation, value, tensor.element)
