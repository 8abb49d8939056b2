"""
Which operations of the FPGA the core in Verilog runs; the others have circuits in C++ alone.

`core/plan.cpp` decides the same of a file, and a test holds the two to each other.
"""

from xdsl.ir import Operation

from ceras_ir.backends.nnet.array_geometry import cut, layer_of
from ceras_ir.backends.nnet.circuit_size import CircuitSize
from ceras_ir.backends.nnet.placement import moved_bytes
from ceras_ir.backends.nnet.rules import MOVERS
from ceras_ir.dialects import graph


def why_not_in_verilog(op: Operation, size: CircuitSize) -> str | None:
    """Why a core of `size` does not run an operation that the FPGA takes; None where it does."""
    if moved_bytes(op) == 0:
        return None
    if isinstance(op, MOVERS | graph.LookupOp):
        return f"the core has no circuit for {op.name}"
    tables = op.tables if isinstance(op, graph.LinearOperation) else None
    if tables is not None and tables.itemsize != 1:
        return "its table has floats"
    layer = layer_of(op, size)
    if layer is None:
        is_pool = isinstance(op, graph.Pool2dOp)
        return "it divides by no power of two" if is_pool else "a row exceeds the line buffer"
    if layer.tables > size.tables:
        return f"it has {layer.tables} function tables, the core has room for {size.tables}"
    if cut(layer, size) is None:
        return "the rows under its window do not fit the line buffer"
    return None
