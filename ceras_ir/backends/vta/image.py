"""
The flat DRAM image that all launches of a network share, and what lies where in it.

Physical address 0 is its first byte. It begins with the arena of the host part: constants are
in place, activations are zero until something computes them. Micro-op tables follow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.launches import LoweredLaunch, arena_size, lower_launches
from ceras_ir.dialects import graph, mem
from ceras_ir.network.function import input_names, main_function, output_names, result_values
from ceras_ir.support.diagnostics import node_name

Dram = NDArray[np.uint8]

PAGE = 4096
"""The image is a whole number of pages, as programs that map it into memory expect."""


@dataclass(frozen=True)
class Region:
    """Bytes [offset, offset + size) of the image; activations may share them."""

    name: str
    kind: str
    """`input`, `output`, `constant`, `activation` or `micro_ops`."""
    offset: int
    size: int
    shape: tuple[int, ...]
    dtype: str
    layout: str
    """`plain` (row-major as the shape says), `packed` (channels in vectors, as the shape says)."""

    def to_json(self) -> dict[str, object]:
        return {**self.__dict__, "shape": list(self.shape)}


@dataclass(frozen=True, eq=False)
class VtaImage:
    """Streams of all launches and the memory that they work on."""

    module: ModuleOp
    board: VtaBoard
    launches: Sequence[LoweredLaunch]

    @property
    def arena_bytes(self) -> int:
        """How much of the image the host part uses."""
        return arena_size(self.module)

    @property
    def size(self) -> int:
        """Bytes of the image."""
        end = self.arena_bytes
        for launch in self.launches:
            table = len(launch.program.micro_op_bytes(self.board))
            end = max(end, launch.micro_op_address + table)
        return max(1, -(-end // PAGE)) * PAGE

    def dram(self, garbage: int | None = None) -> Dram:
        """
        A new image, with constants and micro-ops in place; the rest is zero, or noise from the
        seed `garbage`, as nothing may depend on it.
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

    def regions(self) -> list[Region]:
        """Everything that has a place, in the order of the network."""
        main = main_function(self.module)
        outputs = dict(zip(result_values(main), output_names(main), strict=True))
        found: list[Region] = []
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
            found.append(Region(name, "micro_ops", address, len(words), shape, "uint32", "plain"))
        return found


def build_image(module: ModuleOp, board: VtaBoard) -> VtaImage:
    """Lower all launches of a module whose values have their places."""
    return VtaImage(module, board, lower_launches(module, board))


def _region(name: str, kind: str, value: SSAValue) -> list[Region]:
    block = mem.block_of(value)
    if block is None:
        return []
    tensor = graph.tensor_type(value)
    dtype = graph.numpy_dtype(tensor.element_type)
    shape = tensor.get_shape()
    size = int(np.prod(shape)) * dtype.itemsize
    layout = "packed" if _is_packed(value) else "plain"
    return [Region(name, kind, block.offset.data, size, shape, dtype.name, layout)]


def _is_packed(value: SSAValue) -> bool:
    """Whether a launch reads or writes `value`; then its layout is the accelerator's."""
    return isinstance(value.owner, mem.LaunchOp | mem.PackOp | mem.PackWindowsOp) or any(
        isinstance(use.operation, mem.LaunchOp) for use in value.uses
    )
