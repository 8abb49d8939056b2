"""
Define the passes of target c, which choose the encoding and the storage of weights and activations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

from xdsl.dialects.builtin import (
    Float32Type,
    IntAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    i8,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.backends.c.names import EncodingChoice, EncodingOptions
from ceras_ir.backends.c.ordered_rows import (
    CODE,
    KERNEL_ATTRIBUTE,
    LOSSLESS,
    Encoding,
    encoded,
    instructions,
    quantized_like_s4,
    weight_bytes,
)
from ceras_ir.dialects.graph import (
    ConstantOp,
    LinearOperation,
    MatmulOp,
    element_of,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.mem import CPU, device_of
from ceras_ir.dialects.quant import BYTE_BITS, UniformType
from ceras_ir.support.option_uses import record_use
from ceras_ir.support.options import inherited
from ceras_ir.targets.shared_options import BoardOptions
from ceras_ir.transforms.memory.liveness import byte_size
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.quantization.qdq_rules import shift_storage
from ceras_ir.transforms.rebuilding import erase_unused, rebuild_linear

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.backends.c.constants import Array
    from ceras_ir.backends.c.machines import Board
    from ceras_ir.backends.c.sparse_code import ModelledCycles
    from ceras_ir.dialects.sparse import Encoded


MIN_ZERO_SHARE = 0.4
"""The share of zeros below which sparse kernels are rarely faster."""

WEIGHTS_PER_BLOCK = 4
"""The number of adjacent weights of a dot product that form a block."""


@dataclass(frozen=True)
class ChooseEncodingsPass(BoardOptions, NetworkPass):
    """
    Encode the constant weights of convolutions and matrix products on the CPU if this is faster.

    The encoding is `#sparse.coo`, or `#sparse.block` of 1x4 if it is smaller. A layer is encoded if
    the cost model of `board` predicts less time for the sparse kernel than for the dense kernel.
    Without a board, the model describes a processor with vectors of 16 lanes. Weights of fewer than
    8 bits are encoded only if that needs less memory than packed weights.

    Exact: constants keep all elements. Integer sums do not depend on the order of terms. The sparse
    kernel adds floats in the order that the operation defines.

    Before, with `board=uno_r4_wifi`:

        !q = !quant.uniform<i8:f32, 0.5>
        #r = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>
        %w = graph.constant dense<[[[[0], [0]]], [[[5], [0]]]]>
            : tensor<2x1x2x1xi8> : tensor<2x1x2x1x!q>
        %y = graph.conv2d %x, %w {requant = #r}
            : (tensor<1x8x9x1x!q>, tensor<2x1x2x1x!q>) -> tensor<1x8x8x2x!q>

    After:

        %w = graph.constant #sparse.coo<counts 1, delta 2, counts "0x02", places "0x00",
            values "0x05" : tensor<2x1x2x1xi8>> : tensor<2x1x2x1x!q>
        %y = graph.conv2d %x, %w {requant = #r}
            : (tensor<1x8x9x1x!q>, tensor<2x1x2x1x!q>) -> tensor<1x8x8x2x!q>
    """

    name = "choose-encodings"

    def change(self, main: FuncOp) -> None:
        from ceras_ir.backends.c.sparse_code import packed_bytes

        for layer in list(main.body.block.ops):
            if not isinstance(layer, LinearOperation) or device_of(layer) not in (None, CPU):
                continue
            constant = layer.weights.owner
            if not isinstance(constant, ConstantOp) or constant.encoded or constant.is_elided:
                continue
            weights, element = _signed(constant)
            if (1 - float((weights != 0).mean())) < MIN_ZERO_SHARE:
                continue
            cost = self.cost(layer, weights)
            if cost is None or cost.sparse >= cost.dense:
                continue
            value, stored = smallest(weights), quantized_element(layer.weights)
            if isinstance(element, UniformType) and stored and stored.width < BYTE_BITS:
                if packed_bytes(value) >= stored.packed_bytes(value.shape):
                    continue
                element = element.widened(BYTE_BITS)  # Encodings have values of 8 bits.
            new = ConstantOp(value, TensorType(element, value.shape), location=constant.location)
            Rewriter.insert_op(new, InsertPoint.before(layer))
            layer.operands[1] = new.result
            erase_unused(constant)

    def cost(self, layer: LinearOperation, weights: NDArray[np.generic]) -> ModelledCycles | None:
        from ceras_ir.backends.c.machines import Board, load_machine
        from ceras_ir.backends.c.sparse_code import core_cost, host_cost

        if not _has_kernel(layer):
            return None
        board = None if self.board is None else load_machine(self.board)
        if not isinstance(board, Board):
            return host_cost(layer, weights)
        dense = _dense_instructions(layer, board)
        return core_cost(layer, weights, has_pairs=board.has_dsp, dense=dense)


def _signed(constant: ConstantOp) -> tuple[NDArray[np.generic], Attribute]:
    """
    Return weights and their element type. Integers with a zero point, or without a sign, become
    signed bytes with the zero point 0 if these hold them.
    """
    import numpy as np

    from ceras_ir.backends.c.sums import centred_weights

    weights, element = constant.array(), element_of(constant.result)
    if not isinstance(element, UniformType):
        return weights, element
    if element.is_signed and not any(point.data for point in element.zero_points):
        return weights, element
    centred = centred_weights(constant)
    if np.abs(centred.astype(np.int64)).max() > np.iinfo(np.int8).max:
        return weights, element
    scales = [scale.data for scale in element.scales]
    axis = element.axis.data if isinstance(element.axis, IntAttr) else None
    byte = UniformType(scales if element.is_per_axis else scales[0], storage=i8, axis=axis)
    return centred.astype(np.int8).reshape(weights.shape), byte


def _has_kernel(layer: LinearOperation) -> bool:
    """
    Return whether a sparse kernel supports the types and the bias of a layer. Other limits, such as
    the shape, are not checked here.
    """
    if layer.bias is not None and not isinstance(layer.bias.owner, ConstantOp):
        return False
    if not layer.is_quantized:
        return layer.weight_scale is None
    from ceras_ir.backends.c.linear_sparse import fits_sparse
    from ceras_ir.backends.c.sums import analyse
    from ceras_ir.backends.c.values import Refused

    try:
        return fits_sparse(layer, analyse(layer))
    except Refused:
        # The printer reports this together with all other layers that have no C.
        return False


def _dense_instructions(layer: LinearOperation, board: Board) -> float | None:
    """
    Return the modelled instructions of the dense DSP or Helium kernel of a layer on `board`, or
    `None` if no such kernel supports the layer.
    """
    from ceras_ir.backends.c.linear_dsp import cheapest, fits_dsp
    from ceras_ir.backends.c.linear_helium import fits_helium, helium_cost
    from ceras_ir.backends.c.sparse_code import CORE_WORKSPACE
    from ceras_ir.backends.c.sums import Geometry, analyse
    from ceras_ir.dialects.graph import Conv2dOp

    if not board.has_dsp or not layer.is_quantized:
        return None
    geometry, sums = Geometry.of(layer), analyse(layer)
    if board.has_helium and fits_helium(layer, geometry, sums):
        return helium_cost(layer, CORE_WORKSPACE).instructions
    if not isinstance(layer, Conv2dOp) or geometry.is_direct or geometry.is_depthwise:
        return None
    if not fits_dsp(layer, geometry, sums):
        return None
    return cheapest(layer, geometry, sums, CORE_WORKSPACE).instructions


def smallest(weights: NDArray[np.generic]) -> Encoded:
    """
    Return `weights` in the sparse encoding with the fewest bytes: distances between nonzero
    weights, or blocks of 1x4 weights.
    """
    from ceras_ir.backends.c.sparse_code import WIDTHS, packed_bytes, smallest_distances
    from ceras_ir.dialects.sparse import SparseBlockAttr

    found: list[Encoded] = [smallest_distances(weights)]
    if weights.shape[-1] % WEIGHTS_PER_BLOCK == 0:
        element = found[0].type.element_type
        found += [
            SparseBlockAttr.of(weights, element, (1, WEIGHTS_PER_BLOCK), width) for width in WIDTHS
        ]
    return min(found, key=packed_bytes)


RESERVED_CODE_BYTES = 4096
"""Bytes of flash that `auto` reserves for code. The finished program is checked exactly."""

MAX_TINY_WEIGHTS = 512
"""The maximum number of nonzero weights that `auto` may print as code."""


@dataclass(frozen=True)
class LayerEncoding:
    """
    A float matrix product, the encoding that is selected for its weights so far, and these weights
    (float, or int8 with `scale`).
    """

    op: MatmulOp
    encoding: Encoding
    weights: Array
    scale: float | None = None

    @property
    def nbytes(self) -> int:
        return weight_bytes(self.encoding, self.weights)

    @property
    def instructions(self) -> float:
        return instructions(self.encoding, self.weights)

    def best(self, encodings: tuple[Encoding, ...], *, fast: bool = False) -> LayerEncoding:
        """
        Return the layer with that of `encodings` which has the fewest bytes, or the fewest
        instructions if `fast`. Ties are resolved by the other figure.
        """
        choices = [replace(self, encoding=e) for e in encodings]
        return min(choices, key=lambda c: (c.instructions, c.nbytes)[:: 1 if fast else -1])

    def fastest(self) -> LayerEncoding:
        """
        Return the layer with the lossless encoding that has the fewest instructions. Up to
        `MAX_TINY_WEIGHTS` nonzero weights may become straight-line code.
        """
        import numpy as np

        is_tiny = np.count_nonzero(self.weights) <= MAX_TINY_WEIGHTS
        return self.best((*LOSSLESS, Encoding.CODE) if is_tiny else LOSSLESS, fast=True)

    def smallest(self) -> LayerEncoding:
        return self.best(LOSSLESS)

    def quantized(self) -> LayerEncoding:
        """
        Return the layer with weights rounded to int8 with one scale per layer, in the lossless
        encoding that has the fewest bytes.
        """
        import numpy as np

        stored, scale = quantized_like_s4(self.weights.astype(np.float32, copy=False))
        return replace(self, weights=stored, scale=scale).best(LOSSLESS)


@dataclass(frozen=True)
class EncodeWeightsPass(BoardOptions, EncodingOptions, NetworkPass):
    """
    Fix the order of the sums of `graph.matmul` on float32 with constant weights, and encode the
    weights.

    Constants are encoded by the dialect `sparse` if the encoding is smaller or faster. With the
    attribute `ordered`, products are added in the order of the weights, and each step is rounded
    to float32, so that all kernels return equal results. The last bits of results may change, and
    weights are rounded if the encoding is int8. Otherwise values do not change.

    Before, with `encoding=csr`:

        %w = graph.constant dense<[[0.0, 0.0, 0.0, 5.0]]> : tensor<1x4xf32> : tensor<1x4xf32>
        %y = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>

    After:

        %w = graph.constant #sparse.csr<counts 8, delta 8, counts "0x01", places "0x03",
            values "0x0000A040" : tensor<1x4xf32>> : tensor<1x4xf32>
        %y = graph.matmul %x, %w {ordered} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
    """

    name = "encode-weights"

    encoding: EncodingChoice = inherited(EncodingOptions, "encoding", "auto")
    """
    dense, csr, code: this encoding for each layer (csr only if it is smaller than dense); csr-int8:
    int8 weights with a scale per layer, in each layer except the last, as in paper S4; auto: the
    fastest lossless encoding for each layer, then smaller encodings while the constants exceed the
    flash of `board`, then int8, in the order of the bytes saved. Without a board the flash is
    unlimited, and no tiny layer becomes code.
    """

    def change(self, main: FuncOp) -> None:
        found = [m for m in main.body.block.ops if isinstance(m, MatmulOp)]
        layers = [
            LayerEncoding(m, Encoding.DENSE, w) for m in found if (w := _weights(m)) is not None
        ]
        if not layers:
            return
        record_use("encoding")
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

    def _staged(self, layers: list[LayerEncoding], other_bytes: int) -> list[LayerEncoding]:
        from ceras_ir.backends.c.machines import Board, load_machine

        board = None if self.board is None else load_machine(self.board)
        if not isinstance(board, Board):
            return [c.best(LOSSLESS, fast=True) for c in layers]
        layers = [c.fastest() for c in layers]
        budget = board.free_flash - RESERVED_CODE_BYTES - other_bytes
        for shrink in (LayerEncoding.smallest, LayerEncoding.quantized):
            smaller = [c if c.scale is not None else shrink(c) for c in layers]
            saving = [a.nbytes - b.nbytes for a, b in zip(layers, smaller, strict=True)]
            for i in sorted(range(len(layers)), key=lambda i: -saving[i]):
                if sum(c.nbytes for c in layers) <= budget or saving[i] <= 0:
                    break
                layers[i] = smaller[i]
        return layers


def _weights(op: MatmulOp) -> Array | None:
    """
    Return the float32 weights of a product with -0 replaced by 0, or `None` if they cannot be
    encoded: not constant, not float32, more than 2^16 columns, or in a layer that is quantized or
    has a residual connection.
    """
    import numpy as np

    constant = op.weights.owner
    if op.is_quantized or op.residual is not None or not isinstance(constant, ConstantOp):
        return None
    if not isinstance(element_of(op.weights), Float32Type) or shape_of(op.weights)[1] > 1 << 16:
        return None
    return constant.array().astype(np.float32) + np.float32(0)


def _rewrite(choice: LayerEncoding) -> None:
    op, old = choice.op, choice.op.weights.owner
    assert isinstance(old, ConstantOp)
    element = f32 if choice.scale is None else UniformType(choice.scale)
    # Code omits zeros, as columns of 16 bits do.
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
        rebuilt.attributes[KERNEL_ATTRIBUTE] = StringAttr(CODE)
    Rewriter.replace_op(op, rebuilt)
    erase_unused(old)


U8, UNSIGNED_OFFSET = IntegerType(8, Signedness.UNSIGNED), 128


@dataclass(frozen=True)
class StoreUnsignedPass(NetworkPass):
    """
    Store activations in 8 unsigned bits between two layers with vector kernels.

    x86 multiplies unsigned by signed bytes. Kernels add 128 to signed bytes as they load them,
    which uses the units of the products. The addition is free if a convolution or matrix product
    computes the bytes. All consumers must multiply the value by constant weights. Encoded weights
    require signed bytes.

    Exact: stored values and zero points change by the same constant, so `q - zero_point` is
    unchanged. Clamp ranges change by the same constant.

    Before:

        !q = !quant.uniform<i8:f32, 0.5>
        !s = !quant.uniform<i8:f32, 0.5:-128>
        #a = #graph.requant<shift = 2, rounding = half_up, zero_point = -128, low = -128, high = 64>
        #b = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>
        %w = graph.constant dense<2> : tensor<2x2xi8> : tensor<2x2x!q>
        %a = graph.matmul %x, %w {requant = #a} : (tensor<3x2x!q>, tensor<2x2x!q>) -> tensor<3x2x!s>
        %y = graph.matmul %a, %w {requant = #b} : (tensor<3x2x!s>, tensor<2x2x!q>) -> tensor<3x2x!q>

    After:

        !u = !quant.uniform<u8:f32, 0.5>
        #c = #graph.requant<shift = 2, rounding = half_up, low = 0, high = 192>
        %w = graph.constant dense<2> : tensor<2x2xi8> : tensor<2x2x!q>
        %a = graph.matmul %x, %w {requant = #c} : (tensor<3x2x!q>, tensor<2x2x!q>) -> tensor<3x2x!u>
        %y = graph.matmul %a, %w {requant = #b} : (tensor<3x2x!u>, tensor<2x2x!q>) -> tensor<3x2x!q>
    """

    name = "store-unsigned"

    def change(self, main: FuncOp) -> None:
        for op in main.body.block.ops:
            if _is_dense(op) and _is_only_multiplied(op.result):
                element = quantized_element(op.result)
                assert element is not None
                if element.storage == i8 and not element.is_per_axis:
                    point = element.zero_point + UNSIGNED_OFFSET
                    moved = UniformType(element.scale, point, storage=U8)
                    shift_storage(op.result, moved, UNSIGNED_OFFSET)


def _is_dense(op: Operation) -> TypeGuard[LinearOperation]:
    """
    Return whether `op` is a layer on the CPU that requantizes, with constant weights that are not
    encoded as sparse.
    """
    return (
        isinstance(op, LinearOperation)
        and op.requant is not None
        and device_of(op) == CPU
        and isinstance(op.weights.owner, ConstantOp)
        and op.encoded_weights is None
    )


def _is_only_multiplied(value: SSAValue) -> bool:
    """
    Return whether `value` has consumers, and all of them are layers that satisfy `_is_dense` and
    multiply it by their weights.
    """
    uses = list(value.uses)
    return bool(uses) and all(_is_dense(use.operation) and use.index == 0 for use in uses)
