"""Give every float matrix product with constant weights an encoding for flash."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import Float32Type, StringAttr, TensorType, UnitAttr, f32
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.backends.c.names import EncodingChoice
from ceras_ir.backends.c.ordered_rows import (
    CODE,
    KERNEL,
    Encoding,
    encoded,
    quantized_like_s4,
    weight_bytes,
)
from ceras_ir.dialects.graph import ConstantOp, MatmulOp, element_of, shape_of
from ceras_ir.dialects.quant import UniformType
from ceras_ir.transforms.memory.liveness import byte_size
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.rebuilding import erase_unused, rebuild_linear

if TYPE_CHECKING:
    from ceras_ir.backends.c.constants import Array

ROOM_FOR_CODE = 4096
"""Flash that `auto` leaves for what is no constant; the finished program is checked exactly."""

TINY = 512
"""Weights that are not zero up to which `auto` may make a layer code."""

LOSSLESS = (Encoding.DENSE, Encoding.CSR_DELTA8, Encoding.CSR_INDEX16)


@dataclass(frozen=True)
class Choice:
    """One layer and the encoding it has so far."""

    op: MatmulOp
    encoding: Encoding
    weights: Array
    scale: float | None = None
    """Of int8 weights."""

    @property
    def nbytes(self) -> int:
        return weight_bytes(self.encoding, self.weights)

    @property
    def instructions(self) -> float:
        from ceras_ir.backends.c.ordered_rows import instructions

        return instructions(self.encoding, self.weights)

    def best(self, encodings: tuple[Encoding, ...], *, fast: bool = False) -> Choice:
        """The same layer in the smallest, or fastest, of some encodings."""
        choices = [replace(self, encoding=e) for e in encodings]
        if fast:
            return min(choices, key=lambda c: (c.instructions, c.nbytes))
        return min(choices, key=lambda c: (c.nbytes, c.instructions))

    def fastest(self) -> Choice:
        """The same layer in its fastest encoding without loss, as code if it is tiny."""
        import numpy as np

        is_tiny = np.count_nonzero(self.weights) <= TINY
        return self.best((*LOSSLESS, Encoding.CODE) if is_tiny else LOSSLESS, fast=True)

    def smallest(self) -> Choice:
        """The same layer in its smallest encoding without loss."""
        return self.best(LOSSLESS)

    def quantized(self) -> Choice:
        """The layer with S4's int8 weights, in their smallest encoding."""
        import numpy as np

        stored, scale = quantized_like_s4(self.weights.astype(np.float32, copy=False))
        return replace(self, weights=stored, scale=scale).best(LOSSLESS)


@dataclass(frozen=True)
class EncodeWeightsPass(NetworkPass):
    """
    Order the sums of `graph.matmul` on float32 with constant weights, and encode the weights.

    Each constant takes the encoding of the dialect `sparse` that is smaller or faster.
    Sums get the order that the operation defines. int8 weights get the rounding that it documents.
    Otherwise values stay.
    """

    name = "encode-weights"

    encoding: EncodingChoice = "auto"
    """
    dense, csr, code: this for every layer (csr where it is smaller than dense); csr-int8: int8
    weights with one scale per layer, in every layer but the last, as S4 does; auto: the fastest
    lossless encoding for each layer, then smaller ones while the constants exceed the flash of
    `board`, then int8, beginning with the layer that saves most.
    """
    board: str | None = None
    """
    The board whose flash bounds `auto`, and for which tiny layers may become code; without one
    nothing is too large.
    """

    def change(self, main: FuncOp) -> None:
        found = [m for m in main.body.block.ops if isinstance(m, MatmulOp)]
        layers = [Choice(m, Encoding.DENSE, w) for m in found if (w := _weights(m)) is not None]
        if not layers:
            return
        match self.encoding:
            case "auto":
                all_bytes = sum(
                    byte_size(c.result)
                    for c in main.body.block.ops
                    if isinstance(c, ConstantOp) and c.result.first_use is not None
                )
                layers = self._staged(layers, all_bytes - sum(c.nbytes for c in layers))
            case "dense":
                pass
            case "csr":
                layers = [c.smallest() for c in layers]
            case "csr-int8":
                quantized = [c.quantized() for c in layers[:-1] or layers]
                layers = [*quantized, *(c.smallest() for c in layers[len(quantized) :])]
            case "code":
                layers = [replace(c, encoding=Encoding.CODE) for c in layers]
        for choice in layers:
            _rewrite(choice)

    def _staged(self, layers: list[Choice], others: int) -> list[Choice]:
        if self.board is None:
            return [c.best(LOSSLESS, fast=True) for c in layers]
        layers = [c.fastest() for c in layers]
        from ceras_ir.backends.c.board import load_board

        budget = load_board(self.board).free_flash - ROOM_FOR_CODE - others
        for shrink in (Choice.smallest, Choice.quantized):
            smaller = [c if c.scale is not None else shrink(c) for c in layers]
            saving = [a.nbytes - b.nbytes for a, b in zip(layers, smaller, strict=True)]
            for i in sorted(range(len(layers)), key=lambda i: -saving[i]):
                if sum(c.nbytes for c in layers) <= budget or saving[i] <= 0:
                    break
                layers[i] = smaller[i]
        return layers


def _weights(op: MatmulOp) -> Array | None:
    """The weights of a layer that can be encoded, without negative zeros."""
    import numpy as np

    constant = op.weights.owner
    if op.is_quantized or op.residual is not None or not isinstance(constant, ConstantOp):
        return None
    if not isinstance(element_of(op.weights), Float32Type) or shape_of(op.weights)[1] > 1 << 16:
        return None
    return constant.array().astype(np.float32) + np.float32(0)


def _rewrite(choice: Choice) -> None:
    op, old = choice.op, choice.op.weights.owner
    assert isinstance(old, ConstantOp)
    element = f32 if choice.scale is None else UniformType(choice.scale)
    # Code has no zeros, as columns of 16 bits list none.
    kind = Encoding.CSR_INDEX16 if choice.encoding is Encoding.CODE else choice.encoding
    if (value := encoded(kind, choice.weights)) is not None:
        new = ConstantOp(value, TensorType(element, value.shape), location=old.location)
    elif choice.scale is not None:
        new = ConstantOp.from_array(choice.weights, element, location=old.location)
    else:
        new = old
    if new is not old:
        Rewriter.insert_op(new, InsertPoint.before(op))
    rebuilt = rebuild_linear(op, {"ordered": UnitAttr()}, weights=new.result)
    if choice.encoding is Encoding.CODE:
        rebuilt.attributes[KERNEL] = StringAttr(CODE)
    Rewriter.replace_op(op, rebuilt)
    erase_unused(old)
