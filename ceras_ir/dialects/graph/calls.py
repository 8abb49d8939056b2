"""
Operations of `graph` with functions or regions: calls, branches and loops.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    ModuleOp,
    SymbolRefAttr,
    TensorType,
    i1,
    i8,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure, SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.constant import storage_type
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    Tensor,
    element_of,
    expect_shape,
    is_tensor,
    shape_of,
    tensor_type,
)

PACKED_ALIGNMENT = 16
"""Bytes; each of the results of a loop begins at a multiple of it."""


def bytes_of(kind: Tensor) -> int:
    """Bytes of a tensor as it is stored."""
    return prod(kind.get_shape()) * storage_type(kind.element_type).size


def packed_offsets(kinds: Sequence[Tensor]) -> list[int]:
    """Where each of several tensors begins that lie one after the other; last, the end of all."""
    sizes = (-(-bytes_of(k) // PACKED_ALIGNMENT) * PACKED_ALIGNMENT for k in kinds)
    return [0, *accumulate(sizes)]


class CallingOperation(GraphOperation, ABC):
    """
    Calls private functions of tensors. The result is bytes: tensors one after the other, each from
    the next multiple of 16 on, with bytes of 0 between them.
    """

    ADMITS_INTEGERS: ClassVar = True

    @abstractmethod
    def callees(self) -> Sequence[SymbolRefAttr]:
        """The names of the functions."""

    @abstractmethod
    def argument_types(self) -> Iterator[Tensor]:
        """What each of them is called with."""

    @abstractmethod
    def packed_types_of(self, name: SymbolRefAttr, outputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """The types of the results, if a function returns `outputs`; refuses what does not fit."""

    @property
    def functions(self) -> list[FuncOp]:
        """What is called, which the module must have."""
        found = [SymbolTable.lookup_symbol(self, name) for name in self.callees()]
        return [function for function in found if isinstance(function, FuncOp)]

    @property
    def packed_types(self) -> Sequence[Tensor]:
        """The types of the results, in the order in which they are packed."""
        return self.packed_types_of(self.callees()[0], tensors_of(self.functions[0]))


class CalleesFit(SymbolUserOpInterface):
    """Functions of the module have the types that their caller needs."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, CallingOperation)
        if not isinstance(op.get_toplevel_object(), ModuleOp):
            return  # As long as it is in no module, there is nothing to look in.
        if element_of(op.output) != i8:
            raise VerifyException(f"the result is bytes of i8, got {op.output.type}")
        for name in op.callees():
            callee = SymbolTable.lookup_symbol(op, name)
            if not isinstance(callee, FuncOp) or not callee.body.blocks:
                raise VerifyException(f"no function with a body is called {name}")
            expected = tuple(op.argument_types())
            if (got := tuple(callee.function_type.inputs)) != expected:
                raise VerifyException(
                    f"{name} takes ({', '.join(map(str, got))}), expected "
                    f"({', '.join(map(str, expected))})"
                )
            kinds = op.packed_types_of(name, tensors_of(callee))
            expect_shape("result", op.output, (packed_offsets(kinds)[-1],))
            if callee in called_functions(callee):
                raise VerifyException(f"{name} calls itself")


def macs_of(function: FuncOp) -> int:
    """Products that are added up in one call of a function."""
    return sum(op.macs for op in function.body.block.ops if isinstance(op, GraphOperation))


def tensors_of(function: FuncOp) -> list[Tensor]:
    """What a function returns."""
    return [kind for kind in function.function_type.outputs if is_tensor(kind)]


def called_functions(function: FuncOp) -> list[FuncOp]:
    """The functions that one calls, each once and behind those that it calls itself."""
    found: dict[FuncOp, None] = {}
    seen: set[FuncOp] = set()

    def visit(caller: FuncOp) -> None:
        for op in caller.body.block.ops:
            for callee in op.functions if isinstance(op, CallingOperation) else ():
                if callee not in seen:
                    seen.add(callee)
                    visit(callee)
                    found[callee] = None

    visit(function)
    return list(found)


@irdl_op_definition
class ExtractOp(GraphOperation):
    """
    The tensor whose elements are stored from byte `offset` of `input` on, little end first: one of
    the results of a `graph.loop` or a `graph.branch`.
    """

    name = "graph.extract"
    ADMITS_INTEGERS: ClassVar = True

    input = operand_def(TensorType)
    offset = prop_def(IntegerAttr[I64])

    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, offset: int, kind: Tensor):
        super().__init__(
            operands=[input],
            result_types=[kind],
            properties={"offset": IntegerAttr(offset, i64)},
        )

    @property
    def start(self) -> int:
        """The first byte."""
        return self.offset.value.data

    def verify_semantics(self) -> None:
        if element_of(self.input) != i8 or len(shape_of(self.input)) != 1:
            raise VerifyException(f"bytes expected, a vector of i8, got {self.input.type}")
        start, held = self.start, shape_of(self.input)[0]
        end = start + bytes_of(tensor_type(self.result))
        if start < 0 or start % PACKED_ALIGNMENT or end > held:
            raise VerifyException(
                f"offset {start} must be a multiple of {PACKED_ALIGNMENT}, and {end} at most {held}"
            )


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
