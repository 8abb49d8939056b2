"""
The kinds of layers: one module for each family, found because it is here.

A module declares the `Kind` of each opcode with its check, which judges what was read, and below
`@encodes` what makes the record of an operation. Both have the format's page
(`docs/nnet-format.md`) as their truth; a check uses nothing of the writer.
"""

from importlib import import_module
from pkgutil import iter_modules

from xdsl.ir import Operation

from ceras_ir.backends.nnet.encoding import ENCODERS, AddTable, LayerRecord
from ceras_ir.backends.nnet.file import Kind

_FAMILIES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]

KINDS = {
    kind.number: kind
    for family in _FAMILIES
    for kind in vars(family).values()
    if isinstance(kind, Kind)
}
"""By opcode."""


def encode(op: Operation, add_table: AddTable) -> LayerRecord | None:
    """The record of `op`, or None for an operation that the format does not have."""
    encoder = ENCODERS.get(type(op))
    return None if encoder is None else encoder(op, add_table)
