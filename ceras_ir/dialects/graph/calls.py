"""
Operations that call functions of the module: bodies of loops, and branches.

What is called is no region, so that a network stays one list of operations. Results are bytes, one
after the other, so that such an operation has one result as every other has.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import I64, IntegerAttr, ModuleOp, SymbolRefAttr, TensorType, i8, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def
from xdsl.traits import SymbolTable, SymbolUserOpInterface
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
