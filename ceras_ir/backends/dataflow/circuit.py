"""Read the circuit of a module: the pipeline of blocks, with the lanes of each layer."""

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.traits import SymbolTable

from ceras_ir.backends.dataflow.blocks import Block, Convolution, Pipeline
from ceras_ir.backends.dataflow.board import DataflowBoard
from ceras_ir.backends.dataflow.dialect import ReceiveOp, SendOp, lanes_of
from ceras_ir.backends.dataflow.extract import extract
from ceras_ir.backends.dataflow.lanes import MAX_BANK_WORDS, MAX_PLACES
from ceras_ir.backends.dataflow.plan import (
    PipelinePlan,
    PlannedConvolution,
    batches,
    min_slots,
)
from ceras_ir.backends.dataflow.rings import with_rings
from ceras_ir.backends.dataflow.weights import WeightEncoding, delta_bits
from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.support.diagnostics import Finding, InputError, node_name

CIRCUIT_FUNCTION = "pipeline"
"""The name of the function of the circuit."""


@dataclass(frozen=True, eq=False)
class Circuit:
    """The pipeline of a network, with the lanes of each block."""

    pipeline: Pipeline
    plan: PipelinePlan


def kernel_of(module: ModuleOp) -> FuncOp | None:
    """
    Return the function of the module that becomes the circuit, or `None` if there is none, as
    before `outline-pipeline`.
    """
    kernel = SymbolTable.lookup_symbol(module, CIRCUIT_FUNCTION)
    return kernel if isinstance(kernel, FuncOp) and kernel.body.blocks else None


def pipeline_of(kernel: FuncOp) -> Pipeline:
    """
    Return the pipeline of blocks for the operations of `kernel`, which has a single
    `dataflow.receive`.
    """
    received = [op for op in kernel.body.block.ops if isinstance(op, ReceiveOp)]
    if len(received) != 1:
        raise InputError(f"a pipeline has a single dataflow.receive, got {len(received)}")
    ports = ConstantOp | ReceiveOp | SendOp | ReturnOp
    layers = [op for op in kernel.body.block.ops if not isinstance(op, ports)]
    sent = [op.value for op in kernel.body.block.ops if isinstance(op, SendOp)]
    return extract(received[0].result, layers, sent)


def circuit_of(module: ModuleOp, board: DataflowBoard) -> Circuit:
    """
    Return the pipeline of a module with the lanes that its attributes specify. An `InputError` is
    raised if a layer has no lanes or impossible lanes.
    """
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
        planned[block] = PlannedConvolution(block, lanes, board.pairs)
        if message := _why_not_planned(planned[block], planned):
            raise InputError([Finding(node_name(op), op.name, message)])
    return Circuit(pipeline, with_rings(pipeline, planned))


def _why_not_planned(
    planned: PlannedConvolution, plan: Mapping[Block, PlannedConvolution]
) -> str | None:
    layer, lanes, buffer = planned.layer, planned.lanes, planned.buffer
    per_group = len(layer.weights) // layer.groups
    rows, columns = layer.feature.rows, layer.feature.columns
    if lanes.rows > rows or lanes.filters > per_group or lanes.parts > columns:
        found = f"has {rows} rows, {columns} columns and {per_group} filters in a group"
        return f"{found}, got lanes {lanes}"
    if lanes.terms > 1 and (lanes.encoding.is_sparse or layer.weights.shape[3] % lanes.terms):
        found = f"has {layer.weights.shape[3]} channels in a group"
        return f"{found} with {lanes.encoding.value} weights, got {lanes.terms} terms"
    if (layer.groups > 1 and per_group % lanes.filters) or buffer.depth > MAX_BANK_WORDS:
        return f"lanes do not fit: {lanes}"
    if planned.is_by_row and planned.places > MAX_PLACES:
        return f"a lane adds at most {MAX_PLACES} sums in turn, got {planned.places}"
    if lanes.encoding is WeightEncoding.DELTA and not delta_bits(layer):
        return "delta encoding requires weights of a single group with two or more channels"
    # The producer precedes the layer, so the batches are known.
    needed = min_slots(buffer, batches(layer.inputs[0], plan))
    if lanes.slots < needed:
        return f"needs {needed} slots of input rows, got {lanes.slots}: the circuit would stop"
    return None
