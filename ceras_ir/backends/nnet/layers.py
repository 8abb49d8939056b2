"""
The kinds of layers in an nnet file, by opcode, and the encoder of each operation.

A family of layers is a module: it declares the `Kind` of each opcode with a check for the reader,
and the encoders of operations (`@encodes`). Both follow `docs/nnet-format.md`; a check may use
nothing of the writer.
"""

from xdsl.ir import Operation

from ceras_ir.backends.nnet import arithmetic_layers, elementwise_layers, movement_layers
from ceras_ir.backends.nnet.encoding import ENCODERS, AddTable, LayerRecord
from ceras_ir.backends.nnet.file import Kind

KINDS = {
    kind.number: kind
    for family in (arithmetic_layers, elementwise_layers, movement_layers)
    for kind in vars(family).values()
    if isinstance(kind, Kind)
}
"""By opcode."""


def encode(op: Operation, add_table: AddTable) -> LayerRecord | None:
    """The record of `op`, or None for an operation that the format does not have."""
    encoder = ENCODERS.get(type(op))
    return None if encoder is None else encoder(op, add_table)
