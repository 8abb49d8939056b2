"""Loops with one body: a function of the module that computes a step, and is called for each."""

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    SymbolRefAttr,
    TensorType,
    i1,
    i8,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_operand_def,
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
from ceras_ir.dialects.graph.operation import (
    Tensor,
    element_of,
    shape_of,
    tensor_type,
)


@irdl_op_definition
class LoopOp(CallingOperation):
    """
    Steps of the function `body`: of number 0, 1, ... below `steps`. A step is called with its
    number, a tensor<i64>, with what is `carried`, with an element of each tensor that is
    `scanned`, and with all that is `captured`. It returns the new carried values, and then values
    that are stacked.

    1. The first step is given the operands `carried`, each other one what the one before returned.
    2. Element `t` along the first dimension of what is scanned goes to step `t`, without that
       dimension; of what is `backwards`, element `steps - 1 - t`. Each has `steps` elements.
    3. Of each stacked value the result has a tensor with one more dimension, the first, of `steps`
       elements: that of step `t` at `t`, or at `steps - 1 - t` of what is `backwards`.
    4. With `going`, one truth value, the loop can end early. The body then returns first whether
       there is a next step, and nothing is stacked. If `going` is false there is no step.

    The result is bytes: the last carried values, then what was stacked, each from the next multiple
    of 16 on, with bytes of 0 between them; `graph.extract` takes one of them out. `backwards` has
    an entry of 0 or 1 for each scanned and then for each stacked value. The body is a function of
    tensors like `main`, and may have loops of its own. After ONNX `Scan` and `Loop`.
    """

    name = "graph.loop"
    body = prop_def(FlatSymbolRefAttrConstr)
    steps = prop_def(IntegerAttr[I64])
    backwards = prop_def(DenseArrayBase[I64])
    going = opt_operand_def(TensorType)
    carried = var_operand_def(TensorType)
    scanned = var_operand_def(TensorType)
    captured = var_operand_def(TensorType)

    traits = traits_def(Pure(), CalleesFit())
    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$body (`while` $going^ `:` type($going))? "
        "(`carried` `(` $carried^ `:` type($carried) `)`)? "
        "(`scanned` `(` $scanned^ `:` type($scanned) `)`)? "
        "(`captured` `(` $captured^ `:` type($captured) `)`)? attr-dict `:` type($result)"
    )

    def __init__(
        self,
        body: FuncOp,
        steps: int,
        carried: Sequence[SSAValue],
        scanned: Sequence[SSAValue] = (),
        captured: Sequence[SSAValue] = (),
        *,
        going: SSAValue | None = None,
        backwards: Sequence[int] = (),
    ):
        properties = {
            "body": SymbolRefAttr(body.sym_name),
            "steps": IntegerAttr(steps, i64),
            "backwards": DenseArrayBase.from_list(i64, backwards),
        }
        found = tensors_of(body)[going is not None :]
        stacked = (_stacked(k, steps) for k in found[len(carried) :])
        size = packed_offsets([*found[: len(carried)], *stacked])[-1]
        super().__init__(
            operands=[going, carried, scanned, captured],
            result_types=[TensorType(i8, [size])],
            properties=properties,
        )

    @property
    def step_count(self) -> int:
        """How many steps there are at most."""
        return self.steps.value.data

    @property
    def counted_steps(self) -> int:
        """How many steps estimates count: all, or one where a condition decides."""
        return self.step_count if self.going is None else 1

    def callees(self) -> Sequence[SymbolRefAttr]:
        return (self.body,)

    @property
    def macs(self) -> int:
        return self.counted_steps * macs_of(self.functions[0])

    def argument_types(self) -> Iterator[Tensor]:
        yield TensorType(i64, [])
        yield from map(tensor_type, self.carried)
        for value in self.scanned:
            yield TensorType(element_of(value), shape_of(value)[1:])
        yield from map(tensor_type, self.captured)

    def packed_types_of(self, name: SymbolRefAttr, outputs: Sequence[Tensor]) -> Sequence[Tensor]:
        if self.going is not None:
            if list(outputs[:1]) != [TensorType(i1, [])]:
                raise VerifyException(f"{name} must first return whether it goes on, a tensor<i1>")
            outputs = outputs[1:]
        count = len(self.carried)
        for value, kind in zip(self.carried, outputs, strict=False):
            if value.type != kind:
                raise VerifyException(f"{name} makes {kind} of a carried {value.type}")
        stacked = [_stacked(kind, self.step_count) for kind in outputs[count:]]
        if len(outputs) < max(count, 1):
            raise VerifyException(f"{name} must return {max(count, 1)} values or more")
        if self.going is not None and stacked:
            raise VerifyException("a loop that can end early stacks nothing")
        if len(self.backwards) != (ends := len(self.scanned) + len(stacked)):
            raise VerifyException(
                f"'backwards' must have {ends} entries, got {len(self.backwards)}"
            )
        return [*outputs[:count], *stacked]

    def verify_semantics(self) -> None:
        if self.step_count < 1:
            raise VerifyException(f"steps must be at least 1, got {self.step_count}")
        if self.going is not None and self.going.type != TensorType(i1, []):
            raise VerifyException(f"'while' takes a tensor<i1>, got {self.going.type}")
        for value in self.scanned:
            if shape_of(value)[:1] != (self.step_count,):
                raise VerifyException(
                    f"what is scanned must have {self.step_count} elements along its first "
                    f"dimension, got {value.type}"
                )
        if any(entry not in (0, 1) for entry in self.backwards.get_values()):
            raise VerifyException("entries of 'backwards' must be 0 or 1")


def _stacked(kind: Tensor, steps: int) -> Tensor:
    return TensorType(kind.element_type, (steps, *kind.get_shape()))
