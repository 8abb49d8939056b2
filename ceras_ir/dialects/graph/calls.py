"""Operations of `graph` that call functions: branches and loops."""

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
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure, SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.definition import irdl_op_definition
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
"""The alignment in bytes of each result of a loop."""


def bytes_of(kind: Tensor) -> int:
    """Return the stored size of a tensor in bytes."""
    return prod(kind.get_shape()) * storage_type(kind.element_type).size


def packed_offsets(kinds: Sequence[Tensor]) -> list[int]:
    """
    Return the offset in bytes of each of several tensors that are stored consecutively at multiples
    of 16, and as the last item the total size.
    """
    sizes = (-(-bytes_of(k) // PACKED_ALIGNMENT) * PACKED_ALIGNMENT for k in kinds)
    return [0, *accumulate(sizes)]


class CallingOperation(GraphOperation, ABC):
    """
    Call private functions of tensors. The result is an array of bytes: tensors at multiples of 16,
    with bytes of 0 in between.
    """

    ADMITS_INTEGERS: ClassVar = True

    @abstractmethod
    def callees(self) -> Sequence[SymbolRefAttr]:
        """Return the names of the functions that the operation can call."""

    @abstractmethod
    def argument_types(self) -> Iterator[Tensor]:
        """Yield the types that the arguments of each called function must have."""

    @abstractmethod
    def packed_types_of(self, name: SymbolRefAttr, outputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """
        Return the types of the tensors that the result packs, if the function `name` returns values
        of the types `outputs`. Raise a `VerifyException` if they do not match the operation.
        """

    @property
    def functions(self) -> list[FuncOp]:
        """The functions that the operation can call; empty outside of a module."""
        found = [SymbolTable.lookup_symbol(self, name) for name in self.callees()]
        return [function for function in found if isinstance(function, FuncOp)]

    @property
    def packed_types(self) -> Sequence[Tensor]:
        """The types of the tensors that the result packs, in this order."""
        return self.packed_types_of(self.callees()[0], tensors_of(self.functions[0]))


class CalleesFit(SymbolUserOpInterface):
    """
    Trait: verifies that the called functions exist, do not call themselves, and have the types of
    arguments and results that the caller needs.
    """

    def verify(self, op: Operation) -> None:
        assert isinstance(op, CallingOperation)
        if not isinstance(op.get_toplevel_object(), ModuleOp):
            return  # The callees are unknown outside of a module.
        if element_of(op.output) != i8:
            raise VerifyException(f"the result must be bytes of i8, got {op.output.type}")
        for name in op.callees():
            callee = SymbolTable.lookup_symbol(op, name)
            if not isinstance(callee, FuncOp) or not callee.body.blocks:
                raise VerifyException(f"there is no function {name} with a body")
            expected = tuple(op.argument_types())
            if (got := tuple(callee.function_type.inputs)) != expected:
                raise VerifyException(
                    f"{name} has arguments ({', '.join(map(str, got))}), expected "
                    f"({', '.join(map(str, expected))})"
                )
            kinds = op.packed_types_of(name, tensors_of(callee))
            expect_shape("result", op.output, (packed_offsets(kinds)[-1],))
            if callee in called_functions(callee):
                raise VerifyException(f"{name} must not call itself")


def macs_of(function: FuncOp) -> int:
    """Return the number of multiplications of layers in a single call of `function`."""
    return sum(op.macs for op in function.body.block.ops if isinstance(op, GraphOperation))


def tensors_of(function: FuncOp) -> list[Tensor]:
    """Return the types of the results of a function."""
    return [kind for kind in function.function_type.outputs if is_tensor(kind)]


def called_functions(function: FuncOp) -> list[FuncOp]:
    """
    Return the functions that `function` calls, directly or indirectly. Each is listed after the
    functions that it calls.
    """
    found: dict[FuncOp, None] = {}
    visited: set[FuncOp] = set()

    def visit(caller: FuncOp) -> None:
        for op in caller.body.block.ops:
            for callee in op.functions if isinstance(op, CallingOperation) else ():
                if callee not in visited:
                    visited.add(callee)
                    visit(callee)
                    found[callee] = None

    visit(function)
    return list(found)


@irdl_op_definition
class ExtractOp(GraphOperation):
    """
    Return the tensor that is stored, little-endian, from byte `offset` of `input`, the result of a
    `graph.loop` or `graph.branch`: values at multiples of 16, with bytes of 0 in between.

        %y = graph.extract %packed {offset = 16 : i64} : (tensor<48xi8>) -> tensor<3x2xf32>
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
        """The index of the first byte of the tensor in `input`."""
        return self.offset.value.data

    def verify_semantics(self) -> None:
        if element_of(self.input) != i8 or len(shape_of(self.input)) != 1:
            raise VerifyException(f"bytes expected, a vector of i8, got {self.input.type}")
        start, size = self.start, shape_of(self.input)[0]
        end = start + bytes_of(tensor_type(self.result))
        if start < 0 or start % PACKED_ALIGNMENT or end > size:
            raise VerifyException(
                f"offset {start} must be a multiple of {PACKED_ALIGNMENT}, and end {end} <= {size}"
            )


@irdl_op_definition
class BranchOp(CallingOperation):
    """
    Return the results of the function `taken` if the scalar `condition` is true, else those of
    `other`, for `graph.extract`. Both are called with `captured`, and return values of the same
    types. After ONNX `If`.

        func.func private @abs(%0: tensor<2xf32>) -> tensor<2xf32> {
          %1 = graph.unary <abs> %0 : tensor<2xf32>
          func.return %1 : tensor<2xf32>
        }
        func.func private @same(%0: tensor<2xf32>) -> tensor<2xf32> {
          func.return %0 : tensor<2xf32>
        }
        %packed = graph.branch if %c then @abs else @same(%x)
            : (tensor<i1>, tensor<2xf32>) -> tensor<16xi8>
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
            raise VerifyException(f"{name} must return a value")
        if len(found := self.functions) == 2 and tensors_of(found[0]) != list(outputs):
            raise VerifyException(f"{name} must return the types of {self.taken}")
        return outputs

    def verify_semantics(self) -> None:
        if self.condition.type != TensorType(i1, []):
            raise VerifyException(f"the condition must be a tensor<i1>, got {self.condition.type}")


@irdl_op_definition
class LoopOp(CallingOperation):
    """
    Call the function `body` for the steps 0, 1, ... below `steps`. The arguments are the number of
    the step, a tensor<i64>, the `carried` values, an element of each `scanned` tensor, and the
    `captured` values. The body returns the new carried values, then values that are stacked.

    1. The first step receives the operands `carried`, other steps the results of the previous step.
    2. Step `t` receives element `t` along the first dimension of a scanned tensor, of extent
       `steps`, or element `steps - 1 - t` if it is scanned `backwards`.
    3. Stacked values become a tensor with an additional first dimension of extent `steps`, in the
       order of steps, or reversed if they are stacked `backwards`.
    4. With a boolean scalar after `while`, the loop can end early. If it is false, no step runs.
       The first result of the body is then a boolean that specifies whether the next step runs, and
       no value is stacked.

    The result is a vector of bytes, which `graph.extract` reads: the last carried values (the
    operands `carried` if no step runs), then the stacked tensors, each padded to a multiple of 16
    bytes. `backwards` has an entry of 0 or 1 for each scanned, then for each stacked value. The
    body can contain loops. After ONNX `Scan` and `Loop`.

        func.func private @step(%step: tensor<i64>, %sum: tensor<2xf32>, %row: tensor<2xf32>)
            -> tensor<2xf32> {
          %0 = graph.binary add %sum, %row : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          func.return %0 : tensor<2xf32>
        }
        %packed = graph.loop @step carried(%zero : tensor<2xf32>) scanned(%x : tensor<3x2xf32>)
            {steps = 3 : i64, backwards = array<i64: 0>} : tensor<16xi8>
    """

    name = "graph.loop"
    body = prop_def(FlatSymbolRefAttrConstr)
    steps = prop_def(IntegerAttr[I64])
    backwards = prop_def(DenseArrayBase[I64])
    condition = opt_operand_def(TensorType)
    carried = var_operand_def(TensorType)
    scanned = var_operand_def(TensorType)
    captured = var_operand_def(TensorType)

    traits = traits_def(Pure(), CalleesFit())
    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$body (`while` $condition^ `:` type($condition))? "
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
        condition: SSAValue | None = None,
        backwards: Sequence[int] = (),
    ):
        properties = {
            "body": SymbolRefAttr(body.sym_name),
            "steps": IntegerAttr(steps, i64),
            "backwards": DenseArrayBase.from_list(i64, backwards),
        }
        found = tensors_of(body)[condition is not None :]
        stacked = (_stacked(k, steps) for k in found[len(carried) :])
        size = packed_offsets([*found[: len(carried)], *stacked])[-1]
        super().__init__(
            operands=[condition, carried, scanned, captured],
            result_types=[TensorType(i8, [size])],
            properties=properties,
        )

    @property
    def step_count(self) -> int:
        """The maximum number of steps."""
        return self.steps.value.data

    @property
    def counted_steps(self) -> int:
        """
        The number of steps that estimates of time assume: all steps, or 1 if a condition can end
        the loop early.
        """
        return self.step_count if self.condition is None else 1

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
        if self.condition is not None:
            if list(outputs[:1]) != [TensorType(i1, [])]:
                raise VerifyException(f"{name} must first return whether to continue, a tensor<i1>")
            outputs = outputs[1:]
        count = len(self.carried)
        for value, kind in zip(self.carried, outputs, strict=False):
            if value.type != kind:
                raise VerifyException(f"{name} returns {kind} for a carried {value.type}")
        stacked = [_stacked(kind, self.step_count) for kind in outputs[count:]]
        if len(outputs) < max(count, 1):
            raise VerifyException(f"{name} must return >= {max(count, 1)} values")
        if self.condition is not None and stacked:
            raise VerifyException("a loop that can end early cannot stack values")
        if len(self.backwards) != (expected := len(self.scanned) + len(stacked)):
            raise VerifyException(
                f"'backwards' must have {expected} entries, got {len(self.backwards)}"
            )
        return [*outputs[:count], *stacked]

    def verify_semantics(self) -> None:
        if self.step_count < 1:
            raise VerifyException(f"steps must be >= 1, got {self.step_count}")
        if self.condition is not None and self.condition.type != TensorType(i1, []):
            raise VerifyException(f"'while' requires a tensor<i1>, got {self.condition.type}")
        for value in self.scanned:
            if shape_of(value)[:1] != (self.step_count,):
                raise VerifyException(
                    f"a scanned tensor must have {self.step_count} elements along the first "
                    f"dimension, got {value.type}"
                )
        if any(entry not in (0, 1) for entry in self.backwards.get_values()):
            raise VerifyException("entries of 'backwards' must be 0 or 1")


def _stacked(kind: Tensor, steps: int) -> Tensor:
    return TensorType(kind.element_type, (steps, *kind.get_shape()))
