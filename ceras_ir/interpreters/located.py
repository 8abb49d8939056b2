"""
xDSL's interpreter, with the operation of each error, and with early release of values.

An index can leave its buffer at run time; no verifier can see this, so it is checked here.
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter, PythonValues
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError, node_name


class OutOfRangeError(Exception):
    """An operation reaches beyond what it was given; the interpreter says which operation."""


def check(what: str, low: int, high: int, extent: int) -> None:
    """Refuse positions from `low` to `high` that are not all in `[0, extent)`."""
    if low < 0 or high >= extent:
        position = low if low < 0 else high
        raise OutOfRangeError(f"{what} {position} is out of range, expected [0, {extent})")


def check_indices(indices: Iterable[int], extents: Iterable[int]) -> None:
    """Refuse an index that its dimension does not have."""
    for index, extent in zip(indices, extents, strict=False):
        check("index", index, index, extent)


def index_values(operands: Iterable[int | IntegerAttr]) -> tuple[int, ...]:
    """The values of index operands: xDSL computes integers up to 0.74, and attributes from 0.75."""
    return tuple(v.value.data if isinstance(v, IntegerAttr) else v for v in operands)


class LocatedInterpreter(Interpreter):
    """
    An error that the verifier cannot detect is an error of the user at the operation: an index out
    of range, or an operation without an interpretation. The values of a function are released after
    the last operation that uses them, so that memory holds only live values. Overflow and division
    by zero have the result of IEEE 754, without a warning.
    """

    def __init__(self, module: ModuleOp, listeners: Sequence[Interpreter.Listener] = ()) -> None:
        super().__init__(module, listeners=tuple(listeners))
        self._follower = _Follower(self)

    def run_op(
        self, op: Operation | str | SymbolRefAttr, inputs: PythonValues = ()
    ) -> PythonValues:
        with self._located(in_function=False):
            return super().run_op(op, inputs)

    def call_op(
        self, op: Operation | str | SymbolRefAttr, inputs: PythonValues = ()
    ) -> PythonValues:
        with self._located(in_function=True):
            return super().call_op(op, inputs)

    @contextmanager
    def _located(self, *, in_function: bool) -> Generator[None]:
        """Report an error at the operation that was running."""
        follower, listeners = self._follower, self.listeners
        if follower not in listeners:
            self.listeners = (*listeners, follower)
        depth, releases = len(follower.running), follower.releases
        follower.releases = in_function
        try:
            with np.errstate(all="ignore"):
                yield
        except OutOfRangeError as error:
            raise InputError([follower.finding(str(error))]) from None
        except InterpretationError as error:
            if len(follower.running) == depth:
                raise
            message = f"unsupported by the interpreter: {error}"
            raise UnsupportedError([follower.finding(message)]) from None
        finally:
            self.listeners, follower.releases = listeners, releases
            del follower.running[depth:]


class _Follower(Interpreter.Listener):
    """Record the operations that are running, and release the values of functions."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.running: list[Operation] = []
        """Outermost first."""
        self.releases = False
        self._last_uses: dict[Block, dict[Operation, list[SSAValue]]] = {}

    def will_interpret_op(self, op: Operation, args: PythonValues) -> None:
        self.running.append(op)

    def did_interpret_op(self, op: Operation, results: PythonValues) -> None:
        self.running.pop()
        block = op.parent
        if not self.releases or block is None or not isinstance(block.parent_op(), FuncOp):
            return
        if block not in self._last_uses:
            self._last_uses[block] = _last_uses(block)
        released = self._last_uses[block].get(op, ())
        self.interpreter.set_values((value, None) for value in released)

    def finding(self, message: str) -> Finding:
        op = self.running[-1]
        return Finding(node_name(op), op.name, message)


def _last_uses(block: Block) -> dict[Operation, list[SSAValue]]:
    """The values that only operations of `block` use, by the last of these operations."""
    last: dict[SSAValue, Operation] = {}
    for op in block.ops:
        last |= dict.fromkeys(op.operands, op)
    found: dict[Operation, list[SSAValue]] = {}
    for value, op in last.items():
        if all(use.operation.parent is block for use in value.uses):
            found.setdefault(op, []).append(value)
    return found
