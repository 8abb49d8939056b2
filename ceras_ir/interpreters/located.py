"""xDSL's interpreter, which says at which operation it could not go on, and keeps no dead value."""

from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter, OpImplResult, PythonValues
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from ceras_ir.interpreters.bounds import OutOfRangeError
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError, node_name


@dataclass
class LocatedInterpreter(Interpreter):
    """
    What text may say that no verifier refuses is an error of the user's at the operation: an index
    that leaves its buffer, an operation without a meaning. Values of a function are forgotten when
    their last reader has run, so that what a network takes is that of the values alive at once.
    What overflows or is divided by zero has the result that IEEE 754 gives it, without a warning.
    """

    _last_reads: dict[Block, dict[Operation, list[SSAValue]]] = field(
        default_factory=dict[Block, dict[Operation, list[SSAValue]]]
    )

    def _run_op(self, op: Operation, inputs: PythonValues) -> OpImplResult:
        try:
            with np.errstate(all="ignore"):
                result = super()._run_op(op, inputs)
        except OutOfRangeError as error:
            raise InputError([Finding(node_name(op), op.name, str(error))]) from None
        except InterpretationError as error:
            message = f"unsupported by the interpreter: {error}"
            raise UnsupportedError([Finding(node_name(op), op.name, message)]) from None
        if (block := op.parent) is not None and isinstance(block.parent_op(), FuncOp):
            if block not in self._last_reads:
                self._last_reads[block] = _last_reads(block)
            scope = self._ctx.local_scope
            assert isinstance(scope, dict)
            for value in self._last_reads[block].get(op, ()):
                scope.pop(value, None)
        return result


def _last_reads(block: Block) -> dict[Operation, list[SSAValue]]:
    """The values of a block that operations of it alone read, by the last of those."""
    last: dict[SSAValue, Operation] = {}
    for op in block.ops:
        last |= dict.fromkeys(op.operands, op)
    found: dict[Operation, list[SSAValue]] = {}
    for value, op in last.items():
        if all(use.operation.parent is block for use in value.uses):
            found.setdefault(op, []).append(value)
    return found
