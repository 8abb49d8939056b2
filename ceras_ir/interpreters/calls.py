"""
What functions, calls, loops, branches and `graph.extract` mean, in numpy.

xDSL's own meaning of functions, calls and returns comes in a package that loads the dialects of all
its others, which takes longer than to run a small network.

Loops and branches are pure, so results of earlier calls are kept: the same operation with the same
functions has the same result on the same arrays. Passes read all samples one after the other, and
levels are compared on the same inputs, where a loop of thousands of steps is the same each time.
Only what `main` calls is kept. The oldest results are forgotten beyond `LIMIT` bytes.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    TerminatorValue,
    impl,
    impl_callable,
    impl_terminator,
    register_impls,
)
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.calls import PACKED_ALIGNMENT, called_functions
from ceras_ir.interpreters.float_functions import is_for_statistics
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


@register_impls
class FuncFunctions(InterpreterFunctions):
    """Functions have bodies; what is only declared has no meaning here."""

    @impl_callable(func.FuncOp)
    def function(self, interpreter: Interpreter, op: func.FuncOp, args: PythonValues):
        return interpreter.run_ssacfg_region(op.body, args, op.sym_name.data)

    @impl(func.CallOp)
    def call(self, interpreter: Interpreter, op: func.CallOp, args: PythonValues):
        return interpreter.call_op(op.callee, args)

    @impl_terminator(func.ReturnOp)
    def end(
        self, interpreter: Interpreter, op: func.ReturnOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        return ReturnedValues(args), ()


Array = NDArray[np.generic]

LIMIT = 1 << 28
"""Bytes of results that are kept."""

BODIES = 64
"""Functions that are kept, with their constants."""


class RememberedCalls:
    """The results of calls by what they depend on."""

    def __init__(self) -> None:
        self.bodies: list[list[FuncOp]] = []
        self.results: dict[Hashable, NDArray[np.int8]] = {}
        self.size = 0

    def get(
        self,
        op: graph.CallingOperation,
        arrays: Sequence[Array],
        compute: Callable[[], NDArray[np.int8]],
    ) -> NDArray[np.int8]:
        """The result of `op` on arrays, which nobody may write to."""
        caller = op.parent_op()
        if not isinstance(caller, FuncOp) or caller.sym_name.data != "main":
            return compute()
        properties = tuple(sorted(op.properties.items(), key=lambda item: item[0]))
        # What calibration computes has not all bits.
        mode = is_for_statistics()
        key = (op.name, self._number(op), properties, mode, *map(_digest, arrays))
        if (found := self.results.get(key)) is None:
            found = compute()
            found.flags.writeable = False
            self.results[key] = found
            self.size += found.nbytes
            while self.size > LIMIT:
                self.size -= self.results.pop(next(iter(self.results))).nbytes
        return found

    def _number(self, op: graph.CallingOperation) -> int:
        """The same for operations that call the same functions."""
        functions = [f for called in op.functions for f in (called, *called_functions(called))]
        for number, known in enumerate(self.bodies):
            if len(known) == len(functions) and all(
                a.is_structurally_equivalent(b) for a, b in zip(functions, known, strict=True)
            ):
                return number
        if len(self.bodies) == BODIES:
            self.bodies.clear()
            self.results.clear()
            self.size = 0
        # Passes may change the functions themselves.
        self.bodies.append([function.clone() for function in functions])
        return len(self.bodies) - 1


def _digest(array: Array) -> Hashable:
    return array.dtype.str, array.shape, sha256(np.ascontiguousarray(array).data).digest()


@contextmanager
def _unheard(interpreter: Interpreter) -> Generator[None]:
    """Nobody listens to what is computed here."""
    listeners, interpreter.listeners = interpreter.listeners, ()
    try:
        yield
    finally:
        interpreter.listeners = listeners


def _packed(op: graph.CallingOperation, arrays: Sequence[Array]) -> NDArray[np.int8]:
    """The bytes of arrays, one after the other."""
    packed, start = np.zeros(graph.shape_of(op.output), np.int8), 0
    for array in arrays:
        data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8)
        packed[start : start + data.size] = data
        start += -(-data.size // PACKED_ALIGNMENT) * PACKED_ALIGNMENT
    return packed


@register_impls
class CallFunctions(InterpreterFunctions):
    """Who listens sees a loop and not its steps, which are no layers of the network."""

    def __init__(self) -> None:
        self.remembered = RememberedCalls()

    @impl(graph.LoopOp)
    def loop(self, interpreter: Interpreter, op: graph.LoopOp, args: PythonValues):
        return (self.remembered.get(op, args, lambda: self._loop(interpreter, op, args)),)

    def _loop(
        self, interpreter: Interpreter, op: graph.LoopOp, args: PythonValues
    ) -> NDArray[np.int8]:
        values = list(args)
        going = values.pop(0) if op.condition is not None else None
        carried = tuple(values[: len(op.carried)])
        scanned = values[len(carried) : len(carried) + len(op.scanned)]
        captured = tuple(values[len(carried) + len(scanned) :])
        (body,), kinds, steps = op.functions, op.packed_types, op.step_count
        backwards = op.backwards.get_values()
        stacked = [
            np.empty(k.get_shape(), graph.numpy_dtype(k.element_type))
            for k in kinds[len(carried) :]
        ]
        step = 0
        with _unheard(interpreter):
            while step < steps and (going is None or going.item()):
                # Where a value that is backwards has its element, and where any other has.
                at = (step, steps - 1 - step)
                elements = (
                    np.ascontiguousarray(v[at[back]])
                    for v, back in zip(scanned, backwards, strict=False)
                )
                number = np.array(step, np.int64)
                results = interpreter.call_op(body, (number, *carried, *elements, *captured))
                if going is not None:
                    going, *results = results
                carried = tuple(results[: len(carried)])
                rows = results[len(carried) :]
                for whole, value, back in zip(
                    stacked, rows, backwards[len(scanned) :], strict=True
                ):
                    whole[at[back]] = value
                step += 1
        return _packed(op, (*carried, *stacked))

    @impl(graph.BranchOp)
    def branch(self, interpreter: Interpreter, op: graph.BranchOp, args: PythonValues):
        return (self.remembered.get(op, args, lambda: self._branch(interpreter, op, args)),)

    def _branch(
        self, interpreter: Interpreter, op: graph.BranchOp, args: PythonValues
    ) -> NDArray[np.int8]:
        condition, *captured = args
        name = op.taken if condition.item() else op.other
        with _unheard(interpreter):
            results = interpreter.call_op(name.string_value(), tuple(captured))
        return _packed(op, results)

    @impl(graph.ExtractOp)
    def extract(self, interpreter: Interpreter, op: graph.ExtractOp, args: PythonValues):
        shape, dtype = graph.shape_of(op.result), graph.numpy_dtype(graph.element_of(op.result))
        count = int(np.prod(shape, dtype=np.int64))
        data = np.ascontiguousarray(args[0])
        return (np.frombuffer(data, dtype, count, op.start).reshape(shape),)
