"""Branches of which one runs: functions of the module, one for each answer."""

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import FlatSymbolRefAttrConstr, SymbolRefAttr, TensorType, i1, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.calls import (
    CalleesFit,
    CallingOperation,
    macs_of,
    packed_offsets,
    tensors_of,
)
from ceras_ir.dialects.graph.operation import Tensor, tensor_type


@irdl_op_definition
class BranchOp(CallingOperation):
    """
    What the function `taken` returns if `condition`, one truth value, is true, else what `other`
    returns. Both are called with all that is `captured`, and return values of the same types.

    The result is bytes: these values, each from the next multiple of 16 on, with bytes of 0 between
    them; `graph.extract` takes one of them out. After ONNX `If`.
    """

    name = "graph.branch"

    taken = prop_def(FlatSymbolRefAttrConstr)
    other = prop_def(FlatSymbolRefAttrConstr)
    condition = operand_def(TensorType)
    captured = var_operand_def(TensorType)

    traits = traits_def(Pure(), CalleesFit())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "`if` $condition `then` $taken `else` $other `(` $captured `)` attr-dict `:` "
        "functional-type(operands, results)"
    )

    def __init__(
        self, condition: SSAValue, taken: FuncOp, other: FuncOp, captured: Sequence[SSAValue]
    ):
        super().__init__(
            operands=[condition, captured],
            result_types=[TensorType(i8, [packed_offsets(tensors_of(taken))[-1]])],
            properties={
                "taken": SymbolRefAttr(taken.sym_name),
                "other": SymbolRefAttr(other.sym_name),
            },
        )

    @property
    def macs(self) -> int:
        return max(map(macs_of, self.functions))

    def callees(self) -> Sequence[SymbolRefAttr]:
        return self.taken, self.other

    def argument_types(self) -> Iterator[Tensor]:
        yield from map(tensor_type, self.captured)

    def packed_types_of(self, name: SymbolRefAttr, outputs: Sequence[Tensor]) -> Sequence[Tensor]:
        if not outputs:
            raise VerifyException(f"{name} must return a value or more")
        if len(found := self.functions) == 2 and tensors_of(found[0]) != list(outputs):
            raise VerifyException(f"{name} must return what {self.taken} does")
        return outputs

    def verify_semantics(self) -> None:
        if self.condition.type != TensorType(i1, []):
            raise VerifyException(f"the condition must be a tensor<i1>, got {self.condition.type}")
