"""What replaces an operation on VTA: a launch of a kernel, each kernel once in a module."""

from collections.abc import Callable, Mapping, Sequence

from xdsl.builder import Builder
from xdsl.dialects.builtin import (
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.traits import SymbolTable
from xdsl.utils.hints import isa

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.dialects import graph, mem, mem_packing
from ceras_ir.dialects.graph.operation import Tensor
from ceras_ir.dialects.sparse import MASK

LAYERS = "vta.layers"
"""Of a launch: how many operations of the placed graph it replaces, one after the other."""

Body = Callable[[Builder, Sequence[SSAValue]], None]
"""Adds the operations of a kernel, on its arguments: the inputs, then the output."""


def replaced_by(launch: mem.LaunchOp) -> int:
    """How many operations of the placed graph `launch` replaces; one if it does not say."""
    count = launch.attributes.get(LAYERS)
    return count.value.data if isa(count, IntegerAttr) else 1


class Kernels:
    """The kernels of a module, one for each shape."""

    def __init__(self, module: ModuleOp):
        self.module = module
        self._names: dict[tuple[object, ...], str] = {}

    def get(
        self, stem: str, tensors: Sequence[Tensor], properties: Mapping[str, object], body: Body
    ) -> str:
        """The name of the kernel on packed operands of these types, the result last."""
        types = [_buffer_type(tensor) for tensor in tensors]
        key = (stem, *types, *properties.items())
        if key not in self._names:
            self._names[key] = self._build(stem, types, body)
        return self._names[key]

    def _build(self, stem: str, types: Sequence[MemRefType[Attribute]], body: Body) -> str:
        """A new function at the end of the module."""
        count = len(self._names)
        while SymbolTable.lookup_symbol(self.module, name := f"{stem}_{count}"):
            count += 1
        function = FuncOp(name, (types, []))
        self.module.body.block.add_op(function)
        block = function.body.block
        builder = Builder(InsertPoint.at_end(block))
        body(builder, block.args)
        builder.insert(ReturnOp())
        return name


def _buffer_type(kind: Tensor) -> MemRefType[Attribute]:
    return MemRefType(
        graph.storage_type(kind.element_type), kind.get_shape(), NoneAttr(), StringAttr("dram")
    )


class Launch:
    """
    What replaces operations, of which only the last has other readers: packed inputs, constants,
    the launch, an unpacked result. They come where the first was, so that launches have the order
    of the layers.
    """

    def __init__(self, board: VtaBoard, *replaced: graph.GraphOperation):
        self.board, self.replaced, self.op = board, replaced, replaced[-1]
        self.location = replaced[0].location
        self._builder = Builder(InsertPoint.before(replaced[0]))
        self.inputs: list[SSAValue] = []

    def constant(self, new: graph.ConstantOp) -> None:
        self.inputs.append(self._insert(new))

    def pack(self, value: SSAValue) -> None:
        self.inputs.append(self._insert(mem.PackOp(value, self.board.vector)))

    def tiles(self, weights: SSAValue, bias: graph.ConstantOp, zero_point: int) -> None:
        """Computed weights in tiles, and the bias; what `zero_point` contributes is taken off."""
        packed = self._insert(mem.PackTilesOp(weights, self.board.block))
        constant = self._insert(bias)
        if zero_point:
            constant = self._insert(mem.FoldZeroPointOp(constant, packed, zero_point))
        self.inputs += [packed, constant]

    def _insert(self, new: graph.GraphOperation) -> SSAValue:
        new.location = self.location
        self._builder.insert(new)
        return new.output

    def run(
        self, kernels: Kernels, stem: str, properties: Mapping[str, object], body: Body
    ) -> None:
        """Replace the operations by a launch of the kernel with this body."""
        op = self.op
        plain = graph.tensor_type(op.output)
        shape = mem_packing.packed_shape(plain.get_shape(), self.board.vector)
        packed = TensorType(plain.element_type, shape)
        types = [*map(graph.tensor_type, self.inputs), packed]
        name = kernels.get(stem, types, properties, body)
        launch = mem.LaunchOp(name, self.inputs, [packed])
        launch.attributes.update(op.attributes)
        # The weights are packed from here on; a mask of weights as they were is of no launch.
        launch.attributes.pop(MASK, None)
        launch.location = self.location
        if len(self.replaced) > 1:
            launch.attributes[LAYERS] = IntegerAttr(len(self.replaced), i64)
        self._builder.insert(launch)
        function = launch.parent_op()
        assert isinstance(function, FuncOp)
        function.attributes[mem.ALIGNMENT] = IntegerAttr(self.board.alignment, i64)
        op.output.replace_all_uses_with(self._insert(mem.UnpackOp(launch.outputs[0], plain)))
        makers = [value.owner for old in self.replaced for value in old.operands]
        for old in reversed(self.replaced):
            old.detach()
            old.erase()
        for maker in makers:
            if isinstance(maker, graph.ConstantOp) and not maker.result.uses and maker.parent:
                maker.detach()
                maker.erase()
