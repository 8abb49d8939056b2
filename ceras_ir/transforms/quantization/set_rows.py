"""Choose how functions of whole rows, softmax and normalization, are computed."""

from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph
from ceras_ir.network.precision import keep_in_float
from ceras_ir.transforms.float_network_pass import FloatNetworkPass

Rows = Literal["auto", "integer", "float"]
"""As a user asks for it; auto is what the target's arithmetic has."""


@dataclass(frozen=True)
class SetRowsPass(FloatNetworkPass):
    """
    Choose whether softmax and normalizations of a network that will be quantized are computed in
    integers or in float between them. Those that stay float get `graph.precision = "f32"`.

    In integers they read and make int8 or int16: `graph.integer_softmax` by a table of
    exponentials, `graph.integer_normalize` by a root. Changes no value.
    """

    name = "set-rows"

    rows: Literal["integer", "float"] = "integer"
    """How both are computed."""

    def change(self, main: FuncOp) -> None:
        if self.rows == "integer":
            return
        for inner in main.body.block.ops:
            if isinstance(inner, graph.SoftmaxOp | graph.NormalizeOp):
                keep_in_float(inner, "functions of rows are computed in float")
