"""
Define a dialect of a single operation with syntax, interpretation in NumPy, and C.

The file is loaded by `--load-dialect-plugin=scale_add.py`. The loader finds the class of
interpreter functions in it; `@prints` registers the printer for the C backend.
"""

from math import prod

import numpy as np
from xdsl.dialects.builtin import Float32Type, FloatAttr, f32
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from ceras_ir.backends.c.layer import Layer, prints
from ceras_ir.dialects.graph import shape_of
from ceras_ir.dialects.graph.operation import GraphOperation, Tensor, expect_shape
from ceras_ir.interpreters.float_text import float_literal


@irdl_op_definition
class ScaleAddOp(GraphOperation):
    """Compute `factor * lhs + rhs` of two f32 tensors of one shape; both steps round to float32."""

    name = "toy.scale_add"

    lhs = operand_def(Tensor)
    rhs = operand_def(Tensor)
    factor = prop_def(FloatAttr[Float32Type])
    result = result_def(Tensor)

    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)"

    def __init__(self, lhs: SSAValue, rhs: SSAValue, factor: float):
        super().__init__(
            operands=[lhs, rhs],
            result_types=[lhs.type],
            properties={"factor": FloatAttr(factor, f32)},
        )

    def verify_semantics(self) -> None:
        expect_shape("rhs", self.rhs, shape_of(self.lhs))
        expect_shape("result", self.result, shape_of(self.lhs))


@register_impls
class ToyFunctions(InterpreterFunctions):
    """Interpret the operations; all tools that run a network find this class."""

    @impl(ScaleAddOp)
    def scale_add(self, interpreter: Interpreter, op: ScaleAddOp, args: PythonValues):
        lhs, rhs = args
        return (np.float32(op.factor.value.data) * lhs + rhs,)


@prints(ScaleAddOp)
def scale_add(layer: Layer, op: ScaleAddOp) -> None:
    """Print a loop over all elements. Product and sum round separately, as in NumPy."""
    a, b, y = layer.read(op.lhs, "a"), layer.read(op.rhs, "b"), layer.write(op.result)
    factor = float_literal(op.factor.value.data)
    body = [f"{y}[i] = {factor} * {a}[i] + {b}[i];"]
    layer.loop("i", prod(shape_of(op.result)), body)


Toy = Dialect("toy", [ScaleAddOp], [])
