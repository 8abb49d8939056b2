"""Let the caller pass and receive stored integers instead of floats."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ceras_ir.analysis.network import main_function
from ceras_ir.dialects.graph import DequantizeOp, QuantizeOp


@dataclass(frozen=True)
class StripBorderQuantizationPass(ModulePass):
    """
    An argument that is only ever quantized to one type takes that type; a result that is
    dequantized is returned as it is stored. Other arguments and results stay float.

    Exact in the integers: the caller does what `graph.quantize` and `graph.dequantize` did.
    """

    name = "strip-border-quantization"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        for argument in tuple(main.body.block.args):
            readers = [use.operation for use in argument.uses]
            quantizers = [reader for reader in readers if isinstance(reader, QuantizeOp)]
            types = {quantizer.result.type for quantizer in quantizers}
            if len(quantizers) != len(readers) or len(types) != 1:
                continue
            stored = Rewriter.replace_value_with_new_type(argument, types.pop())
            for quantizer in quantizers:
                quantizer.result.replace_all_uses_with(stored)
                quantizer.detach()
                quantizer.erase()
        last = main.body.block.last_op
        assert isinstance(last, ReturnOp)
        for index, value in enumerate(last.operands):
            if isinstance(value.owner, DequantizeOp):
                last.operands[index] = value.owner.input
                if value.first_use is None:
                    value.owner.detach()
                    value.owner.erase()
        main.function_type = FunctionType.from_lists(
            [argument.type for argument in main.body.block.args],
            [value.type for value in last.operands],
        )
