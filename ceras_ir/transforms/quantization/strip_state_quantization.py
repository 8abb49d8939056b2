"""Keep the states of a network as they are stored."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from ceras_ir.dialects.graph import DequantizeOp
from ceras_ir.network.states import states_of
from ceras_ir.transforms.network_pass import NetworkPass
from ceras_ir.transforms.quantization.rewrites.borders import (
    returned_as_stored,
    stored_type,
    take_stored,
)


@dataclass(frozen=True)
class StripStateQuantizationPass(NetworkPass):
    """
    Give states the type in which they are stored. A state whose argument is only ever quantized to
    the type that its result is dequantized from is both; another one stays float.

    Exact: what is quantized, of what was dequantized from the same type, is the same integer, and
    the first state, zero, is stored as the zero point.
    """

    name = "strip-state-quantization"

    def change(self, main: FuncOp) -> None:
        for state in states_of(main):
            made = state.result.owner
            if isinstance(made, DequantizeOp) and stored_type(state.argument) == made.input.type:
                take_stored(state.argument)
                returned_as_stored(main, state.position)
        main.update_function_type()
