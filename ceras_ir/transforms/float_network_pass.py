"""Passes over float networks, that is over what nobody has quantized yet."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized
from ceras_ir.transforms.network_pass import NetworkPass


@dataclass(frozen=True)
class FloatNetworkPass(NetworkPass):
    """Changes a float network by `change`; a quantized one stays as it is."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not is_quantized(main_function(op)):
            super().apply(ctx, op)
