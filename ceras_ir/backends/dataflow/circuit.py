"""The circuit of a module: the blocks of its kernel with the lanes that stand on them."""

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.traits import SymbolTable

from ceras_ir.backends.dataflow.blocks import Block, Convolution
from ceras_ir.backends.dataflow.board import Board
from ceras_ir.backends.dataflow.dialect import ReceiveOp, SendOp, lanes_of
from ceras_ir.backends.dataflow.encoding import Encoding, delta_bits
from ceras_ir.backends.dataflow.extraction import Pipeline, extract
from ceras_ir.backends.dataflow.lanes import MOST_WORDS
from ceras_ir.backends.dataflow.order import batches, least_slots
from ceras_ir.backends.dataflow.plan import Plan, PlannedConvolution
from ceras_ir.backends.dataflow.rings import with_rings
from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.support.diagnostics import Finding, InputError, node_name

KERNEL = "pipeline"
"""The function that is the circuit."""


@dataclass(frozen=True, eq=False)
class Circuit:
    """A pipeline and its plan."""

    pipeline: Pipeline
    plan: Plan


def kernel_of(module: ModuleOp) -> FuncOp | None:
    """The function that is the circuit, if it has been outlined."""
    kernel = SymbolTable.lookup_symbol(module, KERNEL)
    return kernel if isinstance(kernel, FuncOp) and kernel.body.blocks else None


def pipeline_of(kernel: FuncOp) -> Pipeline:
    """The blocks of a kernel."""
    received = [op for op in kernel.body.block.ops if isinstance(op, ReceiveOp)]
    if len(received) != 1:
        raise InputError(f"a pipeline has one dataflow.receive, got {len(received)}")
    inside = [
        op
        for op in kernel.body.block.ops
        if not isinstance(op, ConstantOp | ReceiveOp | SendOp | ReturnOp)
    ]
    return extract(received[0].result, inside)


def circuit_of(module: ModuleOp, board: Board) -> Circuit:
    """The circuit of a module; refuses one whose lanes have not been chosen, or do not fit."""
    kernel = kernel_of(module)
    if kernel is None:
        raise InputError("the module has no pipeline: run outline-pipeline first")
    pipeline = pipeline_of(kernel)
    planned: dict[Block, PlannedConvolution] = {}
    for op, block in pipeline.operations.items():
        if not isinstance(block, Convolution):
            continue
        lanes = lanes_of(op)
        if lanes is None:
            raise InputError(f"'{node_name(op)}' has no lanes: run allot-lanes first")
        one = PlannedConvolution(block, lanes, board.pairs)
        per_group = len(block.weights) // block.groups
        rows, columns = block.feature.rows, block.feature.columns
        if lanes.rows > rows or lanes.filters > per_group or lanes.parts > columns:
            message = f"has {rows} rows, {columns} columns and {per_group} filters in a group"
            raise InputError([Finding(node_name(op), op.name, f"{message}, got lanes {lanes}")])
        if (block.groups > 1 and per_group % lanes.filters) or one.buffer.depth > MOST_WORDS:
            raise InputError([Finding(node_name(op), op.name, f"lanes do not fit: {lanes}")])
        if lanes.encoding is Encoding.DELTA and not delta_bits(block):
            message = "has no deltas: weights of one group, of two channels or more, have"
            raise InputError([Finding(node_name(op), op.name, message)])
        planned[block] = one
        # Operands come before, so that their batches are known.
        least = least_slots(one.buffer, batches(block.inputs[0], planned))
        if lanes.slots < least:
            message = f"needs {least} slots of input rows, got {lanes.slots}: it would stop"
            raise InputError([Finding(node_name(op), op.name, message)])
    return Circuit(pipeline, with_rings(pipeline, planned))
