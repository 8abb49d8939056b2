"""xDSL's interpreter, which says at which operation it could not go on."""

from xdsl.interpreter import Interpreter, OpImplResult, PythonValues
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from ceras_ir.interpreters.bounds import OutOfRangeError
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError, node_name


class LocatedInterpreter(Interpreter):
    """
    What text may say that no verifier refuses is an error of the user's at the operation: an index
    that leaves its buffer, an operation without a meaning.
    """

    def _run_op(self, op: Operation, inputs: PythonValues) -> OpImplResult:
        try:
            return super()._run_op(op, inputs)
        except OutOfRangeError as error:
            raise InputError([Finding(node_name(op), op.name, str(error))]) from None
        except InterpretationError as error:
            message = f"unsupported by the interpreter: {error}"
            raise UnsupportedError([Finding(node_name(op), op.name, message)]) from None
