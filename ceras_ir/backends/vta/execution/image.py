"""
Build the DRAM image that all launches of a network share, and plan the cache maintenance around
launches.

Physical address 0 is the first byte of the image. The arena of the host part is at the start:
constants are in place, activations are zero until they are computed. Tables of micro-ops follow.

The host accesses the image through caches, VTA directly. Before a launch, bytes that the host wrote
must be in memory. This includes the results of the launch, because a later write-back would destroy
them. After the launch, results must not come from the cache. Values are aligned to cache lines, so
that a line contains a single value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.vta.execution.launches import LoweredLaunch, lower_launches
from ceras_ir.backends.vta.machine.board import CACHE_LINE_BYTES, VtaBoard
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.graph.attributes import viewed_operand
from ceras_ir.network.function import input_names, main_function, output_names, result_values
from ceras_ir.support.diagnostics import InputError, node_name
from ceras_ir.transforms.memory.liveness import byte_size, launch_groups, steps
from ceras_ir.transforms.memory.regions import refuse_regions
from ceras_ir.transforms.memory.slices import refuse_gaps

Dram = NDArray[np.uint8]

IMAGE_PAGE_BYTES = 4096
"""The size of the image is a multiple of the page size, because programs map it into memory."""


@dataclass(frozen=True)
class ImageRegion:
    """
    The bytes [offset, offset + size) of the DRAM image that a value uses, for the manifest. Values
    that are not used at the same time may share bytes.
    """

    name: str
    kind: str
    """`input`, `output`, `constant`, `activation` or `micro_ops`."""
    offset: int
    size: int
    shape: tuple[int, ...]
    dtype: str
    layout: str
    """`plain` (row-major) or `packed` (channels in vectors), with the extents in `shape`."""

    def to_json(self) -> dict[str, object]:
        return {**self.__dict__, "shape": list(self.shape)}


@dataclass(frozen=True, eq=False)
class VtaImage:
    """The programs of all launches of a network, and the DRAM image that they share."""

    module: ModuleOp
    board: VtaBoard
    launches: Sequence[LoweredLaunch]

    @property
    def arena_bytes(self) -> int:
        """The bytes of the image for the values of the network, without the tables of micro-ops."""
        return arena_size(main_function(self.module))

    @property
    def size(self) -> int:
        end = self.arena_bytes
        for launch in self.launches:
            table = len(launch.program.micro_op_bytes(self.board))
            end = max(end, launch.micro_op_address + table)
        return max(1, -(-end // IMAGE_PAGE_BYTES)) * IMAGE_PAGE_BYTES

    def dram(self, garbage: int | None = None) -> Dram:
        """
        Return a new image with constants and tables of micro-ops in place. The other bytes are
        zero. With a seed `garbage` they are noise, so that tests find results that depend on them.
        """
        image = np.zeros(self.size, np.uint8)
        if garbage is not None:
            image[...] = np.random.default_rng(garbage).integers(0, 256, self.size, np.uint8)
        for op in main_function(self.module).body.block.ops:
            if isinstance(op, graph.ConstantOp) and (block := mem.block_of(op.result)):
                data = np.ascontiguousarray(op.array()).view(np.uint8).reshape(-1)
                image[block.offset.data : block.offset.data + len(data)] = data
        for launch in self.launches:
            table = np.frombuffer(launch.program.micro_op_bytes(self.board), np.uint8)
            image[launch.micro_op_address : launch.micro_op_address + len(table)] = table
        return image

    def regions(self) -> list[ImageRegion]:
        main = main_function(self.module)
        outputs = dict(zip(result_values(main), output_names(main), strict=True))
        found: list[ImageRegion] = []
        for name, value in zip(input_names(main), main.body.block.args, strict=True):
            found += _region(name, "input", value)
        for op in main.body.block.ops:
            for value in op.results:
                if value in outputs:
                    found += _region(outputs[value], "output", value)
                elif isinstance(op, graph.ConstantOp):
                    found += _region(node_name(op), "constant", value)
                else:
                    found += _region(node_name(op), "activation", value)
        for index, launch in enumerate(self.launches):
            words = launch.program.micro_op_bytes(self.board)
            name, address = f"launch_{index}.uops", launch.micro_op_address
            shape = (len(launch.program.micro_ops),)
            found.append(
                ImageRegion(name, "micro_ops", address, len(words), shape, "uint32", "plain")
            )
        return found


def build_image(module: ModuleOp, board: VtaBoard) -> VtaImage:
    """
    Return the programs of all launches of a network and their DRAM image. Memory planning must have
    assigned an address to each value.
    """
    main = main_function(module)
    arena = arena_size(main)
    return VtaImage(module, board, lower_launches(launch_groups(main), arena, board))


def arena_size(main: FuncOp) -> int:
    """
    Return the bytes of memory that the values of a network occupy. An `InputError` is raised if
    values have no addresses.
    """
    refuse_regions(main, "vta")
    refuse_gaps(main, "vta")
    arena = mem.arena_of(main)
    if arena is None:
        raise InputError("values have no addresses yet: run allocate-blocks first")
    return arena.size.data


def _region(name: str, kind: str, value: SSAValue) -> list[ImageRegion]:
    block = mem.block_of(value)
    if block is None:
        return []
    tensor = graph.tensor_type(value)
    dtype = graph.numpy_dtype(tensor.element_type)
    shape = tensor.get_shape()
    size = int(np.prod(shape)) * dtype.itemsize
    layout = "packed" if _is_packed(value) else "plain"
    return [ImageRegion(name, kind, block.offset.data, size, shape, dtype.name, layout)]


def _is_packed(value: SSAValue) -> bool:
    """
    Return whether `value` has the packed layout of the accelerator, because a launch computes or
    uses it.
    """
    return isinstance(value.owner, mem.LaunchOp | mem.PackOp | mem.PackWindowsOp) or any(
        isinstance(use.operation, mem.LaunchOp) for use in value.uses
    )


ByteRange = tuple[int, int]
"""The offset in the image, and the size, in bytes."""


@dataclass
class Maintenance:
    """
    The address ranges that the host writes back from its cache before a launch (`clean`), and that
    it removes from the cache after the launch (`invalidate`).
    """

    clean: list[ByteRange] = field(default_factory=list[ByteRange])
    invalidate: list[ByteRange] = field(default_factory=list[ByteRange])


def cache_maintenance(module: ModuleOp) -> list[Maintenance]:
    """
    Return the ranges to clean and to invalidate for each start of VTA, as few as possible; a range
    is a value. Two runs of the network are simulated, because the second run starts with the caches
    that the first run leaves.
    """
    caches = _Caches(module)
    for _ in range(2):
        for argument in main_function(module).body.block.args:
            if (block := _range(argument)) is not None:
                caches.host_writes(block)
        for op in steps(main_function(module)):
            caches.visit(op)
        caches.read_results(module)
    return caches.found


def _range(value: SSAValue) -> ByteRange | None:
    block = mem.block_of(value)
    return None if block is None else (block.offset.data, byte_size(value))


def _lines(block: ByteRange) -> slice:
    return slice(block[0] // CACHE_LINE_BYTES, -(-(block[0] + block[1]) // CACHE_LINE_BYTES))


class _Caches:
    """
    The cache lines of the CPU that are dirty (not yet in memory), and those that may hold an older
    copy of a result of VTA, while the operations of a network are visited.
    """

    def __init__(self, module: ModuleOp):
        size = -(-arena_size(main_function(module)) // CACHE_LINE_BYTES)
        self.starts = launch_groups(main_function(module))
        self.numbers = {launches[0]: i for i, launches in enumerate(self.starts)}
        self.found = [Maintenance() for _ in self.starts]
        self.dirty = np.zeros(size, np.bool_)
        self.writer: NDArray[np.int32] = np.full(size, -1, np.int32)
        """The index in `results` of the result that the host may have an older copy of, or -1."""
        self.results = [
            (number, block)
            for number, launches in enumerate(self.starts)
            for op in launches
            for block in map(_range, op.outputs)
            if block is not None
        ]

    def visit(self, op: Operation) -> None:
        if isinstance(op, mem.LaunchOp):
            # Launches that start with the previous launch were visited with it.
            if op in self.numbers:
                self.launch(self.numbers[op])
            return
        if viewed_operand(op) is not None and _range(op.operands[0]) == _range(op.results[0]):
            return
        for operand in op.operands:
            self.host_reads(operand)
        for result in op.results:
            if (block := _range(result)) is not None:
                self.host_writes(block)

    def host_reads(self, value: SSAValue) -> None:
        block = _range(value)
        if block is None or isinstance(value.owner, graph.ConstantOp):
            return
        writers = self.writer[_lines(block)]
        for index in map(int, np.unique(writers[writers >= 0])):
            number, result = self.results[index]
            if result not in self.found[number].invalidate:
                self.found[number].invalidate.append(result)
        self.writer[_lines(block)] = -1

    def host_writes(self, block: ByteRange) -> None:
        self.dirty[_lines(block)] = True
        self.writer[_lines(block)] = -1

    def launch(self, number: int) -> None:
        found = self.found[number]
        values = [v for op in self.starts[number] for v in (*op.inputs, *op.outputs)]
        blocks = {block for block in map(_range, values) if block is not None}
        # The largest first: results of a start may overlap.
        for block in sorted(blocks, key=lambda p: (-p[1], p[0])):
            if self.dirty[_lines(block)].any():
                self.dirty[_lines(block)] = False
                if block not in found.clean:
                    found.clean.append(block)
        found.clean.sort()
        # If two results overlap, the host finds the later result.
        for index, (of, result) in enumerate(self.results):
            if of == number:
                self.writer[_lines(result)] = index

    def read_results(self, module: ModuleOp) -> None:
        last = main_function(module).body.block.last_op
        assert isinstance(last, ReturnOp)
        for value in last.operands:
            self.host_reads(value)
