"""Store what vectors multiply as unsigned bytes."""

from dataclasses import dataclass
from typing import TypeGuard

from xdsl.dialects.builtin import IntegerType, Signedness, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph import ConstantOp, LinearOperation, quantized_element
from ceras_ir.dialects.mem import CPU, device_of
from ceras_ir.dialects.quant import UniformType
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.quantization.qdq_rules import shift_storage

U8, HALF = IntegerType(8, Signedness.UNSIGNED), 128


@dataclass(frozen=True)
class StoreUnsignedPass(NetworkPass):
    """
    Store activations in 8 unsigned bits between layers that both have vectors for them.

    x86 multiplies unsigned by signed bytes. Signed ones are moved by 128 as they are read, in units
    that products need; where a convolution or matrix product makes them, the move is free. All
    readers must multiply the value by constant weights. Encoded weights keep signed bytes.

    Exact: stored numbers and zero points move by the same constant, so `q - zero_point` stays.
    Clamp ranges move with them.
    """

    name = "store-unsigned"

    def change(self, main: FuncOp) -> None:
        for op in main.body.block.ops:
            if _is_dense(op) and _is_only_multiplied(op.result):
                element = quantized_element(op.result)
                assert element is not None
                if element.storage == i8 and not element.is_per_axis:
                    point = element.zero_point + HALF
                    moved = UniformType(element.scale, point, storage=U8)
                    shift_storage(op.result, moved, HALF)


def _is_dense(op: Operation) -> TypeGuard[LinearOperation]:
    """Whether it multiplies bytes by constant weights that are all there, and requantizes."""
    return (
        isinstance(op, LinearOperation)
        and op.requant is not None
        and device_of(op) == CPU
        and isinstance(op.weights.owner, ConstantOp)
        and op.encoded_weights is None
    )


def _is_only_multiplied(value: SSAValue) -> bool:
    """Whether all that is done with it is to multiply it by such weights."""
    uses = list(value.uses)
    return bool(uses) and all(_is_dense(use.operation) and use.index == 0 for use in uses)
