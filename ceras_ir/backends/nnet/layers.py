"""
List the kinds of layers in an nnet file by opcode, and encode operations.

The three modules of layers declare the `Kind` of each opcode with a check for the reader, and the
encoders of operations (`@encodes`) for the writer. Both follow `docs/nnet-format.md`. A check uses
no code of the writer.
"""

from xdsl.ir import Operation

from ceras_ir.backends.nnet import arithmetic_layers, elementwise_layers, movement_layers
from ceras_ir.backends.nnet.encoding import ENCODERS, AddTable, LayerRecord
from ceras_ir.backends.nnet.file import Kind

LAYER_KINDS = {
    kind.number: kind
    for module in (arithmetic_layers, elementwise_layers, movement_layers)
    for kind in vars(module).values()
    if isinstance(kind, Kind)
}
"""The kinds by opcode."""


def encode(op: Operation, add_table: AddTable) -> LayerRecord | None:
    """
    Return the layer record of `op`, or `None` if the format does not support the operation.
    `add_table` stores a lookup table and returns its number.
    """
    encoder = ENCODERS.get(type(op))
    return None if encoder is None else encoder(op, add_table)
