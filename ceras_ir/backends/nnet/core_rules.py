"""
Which operations of the FPGA the core in Verilog runs, and as which launches; the others have
circuits in C++ alone.

`core/plan.cpp` and `core/plan_move.cpp` decide the same of a file, and a test holds them to this.
"""

from dataclasses import replace

from xdsl.ir import Operation

from ceras_ir.backends.nnet.array_cycles import cycles_of
from ceras_ir.backends.nnet.array_geometry import Layer, cut, layer_of, start_of
from ceras_ir.backends.nnet.array_moves import moves_of
from ceras_ir.backends.nnet.circuit_size import CircuitSize
from ceras_ir.backends.nnet.rules import MOVERS
from ceras_ir.dialects import graph


def launches_of(op: Operation, size: CircuitSize) -> list[Layer] | str:
    """The launches of an operation that the FPGA takes, or why a core of `size` runs none."""
    if isinstance(op, MOVERS):
        launches = moves_of(op, size)
        if isinstance(launches, str):
            return launches
    else:
        layer = layer_of(op, size)
        if layer is None:
            is_pool = isinstance(op, graph.Pool2dOp)
            return "it divides by no power of two" if is_pool else "a row exceeds the line buffer"
        if (room := size.tables // layer.result_size) < layer.tables:
            kind = "function tables" if layer.result_size == 1 else "function tables of floats"
            return f"it has {layer.tables} {kind}, the core has room for {room}"
        residual = op.residual if isinstance(op, graph.LinearOperation) else None
        if isinstance(op, graph.BinaryOp):
            residual = op.rhs
        starts = [
            0 if v is None else start_of(v) for v in (op.operands[0], op.results[0], residual)
        ]
        launches = [replace(layer, starts=(starts[0], starts[1], starts[2]))]
    if any(cut(layer, size) is None for layer in launches):
        return "the rows under its window do not fit the line buffer"
    return launches


def why_not_in_verilog(op: Operation, size: CircuitSize) -> str | None:
    """Why a core of `size` does not run an operation that the FPGA takes; None where it does."""
    launches = launches_of(op, size)
    return launches if isinstance(launches, str) else None


def core_cycles_of(op: Operation, size: CircuitSize) -> tuple[int, int] | None:
    """Launches of an operation and their cycles together; None where the core does not run it."""
    launches = launches_of(op, size)
    if isinstance(launches, str):
        return None
    return len(launches), sum(cycles_of(layer, size) or 0 for layer in launches)
