"""
What functions, calls and returns mean.

xDSL's own meaning of these three operations comes in a package that loads the dialects of all its
others, which takes longer than to run a small network.
"""

from xdsl.dialects import func
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
