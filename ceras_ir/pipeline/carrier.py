"""A network as bytes, and back: for caches and other processes."""

import io
from dataclasses import dataclass

from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, ModuleOp

from ceras_ir.pipeline.context import load_context, load_universe
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.printing import print_module

_FILE = "carried network"


@dataclass(frozen=True)
class TextCarrier:
    """As IR text with the names of nodes."""

    def pack(self, module: ModuleOp) -> bytes:
        stream = io.StringIO()
        print_module(module, stream, debuginfo=True)
        return stream.getvalue().encode()

    def unpack(self, data: bytes) -> ModuleOp:
        module = parse_text(load_context(load_universe()), data.decode(), _FILE)
        for op in module.walk():
            # What had no place in the model has none here either.
            if isinstance(op.location, FileLineColLoc) and op.location.filename.data == _FILE:
                op.location = UNKNOWN_LOC
        return module
