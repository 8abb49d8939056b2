"""Turn what is placed on VTA into launches of kernels on packed tensors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, NoneAttr, StringAttr, TensorType, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.traits import SymbolTable

from ceras_ir.backends.vta.rules import net_shift, rounding_constant, why_not
from ceras_ir.diagnostics import Finding, UnsupportedError, node_name
from ceras_ir.dialects import graph, mem, tile
from ceras_ir.dialects.graph.operation import Tensor
from ceras_ir.dialects.quant import UniformType
from ceras_ir.dialects.tile.convolution import RESIDUAL_WEIGHT_BITS

Array = NDArray[np.generic]


@dataclass(frozen=True)
class ConvertGraphToTilePass(ModulePass):
    """
    Every operation on device vta becomes `mem.launch` of a kernel between `mem.pack` of its
    inputs and `mem.unpack` of its result; its constants are packed here. Equal kernels are one.

    Exact: lanes past the last channel of an input meet zero weights, so whatever they hold adds
    nothing; those of a result are dropped by `mem.unpack` or meet zero weights in turn. A
    residual is multiplied by a diagonal of 2^b and then moved left by what is missing. Rounding
    half up is a floor after adding half, which is in the bias and proven not to overflow.
    """

    name = "convert-graph-to-tile"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        placed = [o for o in op.walk() if mem.device_of(o) is mem.Device.VTA]
        work = [o for o in placed if not isinstance(o, mem.LaunchOp)]
        findings = [
            Finding(node_name(o), o.name, f"unsupported on VTA: {reason}")
            for o in work
            if (reason := why_not(o))
        ]
        if findings:
            raise UnsupportedError(findings)
        kernels = _Kernels(op)
        for operation in work:
            if isinstance(operation, graph.Pool2dOp):
                _launch_pool(operation, kernels)
                continue
            assert isinstance(operation, graph.LinearOperation)
            _launch(operation, kernels)


@dataclass(frozen=True)
class _Properties:
    """What of an operation its kernel must know besides types."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0, 0, 0)
    dilations: tuple[int, ...] = (1, 1)
    residual_shift: int = 0
    shift: int = 0
    low: int = -128
    high: int = 127
    uniform_bias: int | None = None

    @classmethod
    def of(cls, op: graph.LinearOperation) -> "_Properties":
        assert op.requant is not None
        bias = bias_with_rounding(op)
        left = op.residual_left_shift
        window = cls()
        if isinstance(op, graph.Conv2dOp):
            window = cls(
                tuple(op.strides.get_values()),
                tuple(op.padding.get_values()),
                tuple(op.dilations.get_values()),
            )
        return replace(
            window,
            residual_shift=left - min(left, RESIDUAL_WEIGHT_BITS),
            shift=net_shift(op),
            low=op.requant.low.data,
            high=op.requant.high.data,
            uniform_bias=int(bias[0]) if (bias == bias[0]).all() else None,
        )

    def contraction(
        self,
        input: SSAValue,
        weights: SSAValue,
        bias: SSAValue,
        residual: tuple[SSAValue, SSAValue] | None,
        output: SSAValue,
    ) -> tile.Conv2dOp:
        """The body of the kernel."""
        return tile.Conv2dOp(
            input,
            weights,
            bias,
            residual,
            output,
            strides=self.strides,
            padding=self.padding,
            dilations=self.dilations,
            residual_shift=self.residual_shift,
            shift=self.shift,
            low=self.low,
            high=self.high,
            uniform_bias=self.uniform_bias,
        )


class _Kernels:
    """The kernels of a module, one for each shape."""

    def __init__(self, module: ModuleOp):
        self.module = module
        self._names: dict[tuple[object, ...], str] = {}

    def get(self, op: graph.LinearOperation, tensors: Sequence[Tensor]) -> str:
        """The name of the kernel for `op` on packed operands of these types, the result last."""
        types = [_buffer_type(tensor) for tensor in tensors]
        properties = _Properties.of(op)
        key = (op.name, op.residual is not None, *types, properties)
        if key not in self._names:
            self._names[key] = self._build(op, types, properties)
        return self._names[key]

    def get_pool(self, op: graph.Pool2dOp, tensors: Sequence[Tensor]) -> str:
        """The name of the kernel for the pooling `op` on these packed operands."""
        types = [_buffer_type(tensor) for tensor in tensors]
        window = {
            "kernel": tuple(op.kernel.get_values()),
            "strides": tuple(op.strides.get_values()),
            "padding": tuple(op.padding.get_values()),
        }
        key = (op.name, *types, *window.values())
        if key not in self._names:
            name, block = self._function("max_pool", types)
            body = tile.MaxPoolOp(block.args[0], block.args[1], block.args[2], **window)
            block.add_ops([body, ReturnOp()])
            self._names[key] = name
        return self._names[key]

    def _function(self, stem: str, types: Sequence[MemRefType[Attribute]]) -> tuple[str, Block]:
        """A new function at the end of the module: its name, and its empty body."""
        count = len(self._names)
        while SymbolTable.lookup_symbol(self.module, name := f"{stem}_{count}"):
            count += 1
        function = FuncOp(name, (types, []))
        self.module.body.block.add_op(function)
        return name, function.body.block

    def _build(
        self,
        op: graph.LinearOperation,
        types: list[MemRefType[Attribute]],
        properties: _Properties,
    ) -> str:
        name, block = self._function(op.name.removeprefix("graph."), types)
        builder = Builder(InsertPoint.at_end(block))
        images: list[SSAValue] = list(block.args)
        for i, kind in enumerate(types):
            if len(shape := kind.get_shape()) == 3:
                # A matrix [K/16, M, 16] is an image of one row.
                blocks, rows, lanes = shape
                image = tile.ViewOp(images[i], (1, blocks, 1, rows, lanes))
                images[i] = builder.insert(image).result
        x, weights, bias, *residual, y = images
        pair = (residual[0], residual[1]) if residual else None
        builder.insert(properties.contraction(x, weights, bias, pair, y))
        builder.insert(ReturnOp())
        return name


def _buffer_type(kind: Tensor) -> MemRefType[Attribute]:
    return MemRefType(
        graph.storage_type(kind.element_type), kind.get_shape(), NoneAttr(), StringAttr("dram")
    )


def _launch_pool(op: graph.Pool2dOp, kernels: _Kernels) -> None:
    builder = Builder(InsertPoint.before(op))

    def insert(new: graph.GraphOperation) -> SSAValue:
        new.location = op.location
        builder.insert(new)
        return new.output

    identity = graph.ConstantOp.from_array(np.eye(mem.LANES, dtype=np.int8), UniformType(1.0))
    inputs = [insert(mem.PackOp(op.input)), insert(identity)]
    plain = graph.tensor_type(op.result)
    packed = TensorType(plain.element_type, mem.packed_shape(plain.get_shape()))
    name = kernels.get_pool(op, [*map(graph.tensor_type, inputs), packed])
    launch = mem.LaunchOp(name, inputs, [packed])
    launch.attributes.update(op.attributes)
    launch.location = op.location
    builder.insert(launch)
    op.result.replace_all_uses_with(insert(mem.UnpackOp(launch.outputs[0], plain)))
    op.detach()
    op.erase()


def _launch(op: graph.LinearOperation, kernels: _Kernels) -> None:
    builder = Builder(InsertPoint.before(op))

    def insert(new: graph.GraphOperation) -> SSAValue:
        new.location = op.location
        builder.insert(new)
        return new.output

    inputs = [
        insert(mem.PackOp(op.input)),
        insert(packed_weights(op)),
        insert(packed_bias(op)),
    ]
    if op.residual is not None:
        inputs += [insert(mem.PackOp(op.residual)), insert(residual_weights(op))]
    plain = graph.tensor_type(op.result)
    packed = TensorType(plain.element_type, mem.packed_shape(plain.get_shape()))
    name = kernels.get(op, [*map(graph.tensor_type, inputs), packed])
    launch = mem.LaunchOp(name, inputs, [packed])
    launch.attributes.update(op.attributes)
    launch.location = op.location
    builder.insert(launch)
    op.result.replace_all_uses_with(insert(mem.UnpackOp(launch.outputs[0], plain)))
    constants = [op.weights.owner, *(() if op.bias is None else (op.bias.owner,))]
    op.detach()
    op.erase()
    for constant in constants:
        assert isinstance(constant, Operation)
        if not constant.results[0].uses:
            constant.detach()
            constant.erase()


def packed_weights(op: graph.LinearOperation) -> graph.ConstantOp:
    """[O, KH, KW, C] or [N, K] as [O/16, C/16, KH, KW, 16 out, 16 in], zeros in added lanes."""
    plain = _constant(op.weights)
    if plain.ndim == 2:
        plain = plain[:, None, None, :]
    o, kh, kw, c = plain.shape
    lanes = mem.LANES
    padded = np.pad(plain, ((0, -o % lanes), (0, 0), (0, 0), (0, -c % lanes)))
    split = padded.reshape(-1, lanes, kh, kw, padded.shape[3] // lanes, lanes)
    tiles = np.ascontiguousarray(split.transpose(0, 4, 2, 3, 1, 5))
    return graph.ConstantOp.from_array(tiles, UniformType(_scale(op.weights)))


def bias_with_rounding(op: graph.LinearOperation) -> NDArray[np.int32]:
    """What is added to the sum of every output channel before a floor shift."""
    channels = graph.shape_of(op.result)[-1]
    bias = np.full(channels, rounding_constant(op), np.int32)
    if op.bias is not None:
        bias += _constant(op.bias).astype(np.int32)
    return bias


def packed_bias(op: graph.LinearOperation) -> graph.ConstantOp:
    """The bias with the rounding constant as [O/16, 16]; added lanes repeat the last channel."""
    bias = bias_with_rounding(op)
    padded = np.pad(bias, (0, -len(bias) % mem.LANES), mode="edge").reshape(-1, mem.LANES)
    scale = _scale(op.input) * _scale(op.weights)
    return graph.ConstantOp.from_array(padded, UniformType(scale, storage=i32))


def residual_weights(op: graph.LinearOperation) -> graph.ConstantOp:
    """The diagonal that moves a residual left by up to six bits."""
    bits = min(op.residual_left_shift, RESIDUAL_WEIGHT_BITS)
    diagonal = np.eye(mem.LANES, dtype=np.int8) << bits
    return graph.ConstantOp.from_array(diagonal.astype(np.int8), UniformType(1.0))


def _scale(value: SSAValue) -> float:
    """The scale for the type of a packed constant; 1 where each channel has its own."""
    element = graph.quantized_element(value)
    return 1.0 if element is None or element.is_per_axis else element.scale


def _constant(value: SSAValue) -> Array:
    array = graph.constant_array(value)
    assert array is not None
    return array
