"""A printed network: what the writers of the individual files share."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ceras_ir.backends.c.constants import ConstantPool
from ceras_ir.backends.c.kernels import Kernels
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.names import identifiers
from ceras_ir.backends.c.options import COptions
from ceras_ir.backends.c.prefix import Prefix
from ceras_ir.backends.c.program import STATE_ALIGNMENT, Arena, Program
from ceras_ir.backends.c.shared_functions import shared_functions
from ceras_ir.backends.c.workspace import place_workspaces
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.transforms.memory.analysis.spans import aligned

ARENA_ALIGNMENT = 8
"""What the widest element needs; more is for speed, and not demanded of the caller."""

C_TYPES = {"float32": "float", "bool": "uint8_t"}
"""Of numpy types that C calls otherwise."""


@dataclass(frozen=True)
class Model:
    """Layers with their bodies printed, constants and kernels collected."""

    options: COptions
    program: Program
    layers: list[Layer]
    pool: ConstantPool
    kernels: Kernels
    bodies: Sequence["Model"] = ()
    """Of loops and branches, each behind those that it calls."""
    first: int = 0
    """The index of the first layer: numbers go on from function to function."""

    def layer(self, index: int) -> Layer:
        """The layer of that index."""
        return self.layers[index - self.first]

    @property
    def tensors(self) -> list[TensorInfo]:
        """Inputs, then outputs: the order of the parameters of `model_run`."""
        return [*self.program.inputs, *self.program.outputs]

    @property
    def names(self) -> list[str]:
        """An identifier for each tensor."""
        return identifiers([t.name for t in self.tensors], self.options.prefix.name)

    @cached_property
    def functions(self) -> dict[int, int]:
        """Of each layer that has something to do, the one whose function does it."""
        return shared_functions(self.layers, self.pool)

    @property
    def scratch_bytes(self) -> int:
        """Workspace of the layer that needs most."""
        return max((layer.scratch_bytes for layer in self.layers), default=0)

    @cached_property
    def workspaces(self) -> dict[int, Arena]:
        """
        Where the workspaces of layers that have one are in the arena, by position; with launches
        nowhere.
        """
        if self.program.launches:
            return {}
        sizes = {i: layer.scratch_bytes for i, layer in enumerate(self.layers)}
        return place_workspaces(self.program, sizes)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the arena that workspaces take beyond those of values."""
        values = sum(size for size, _ in self.program.regions.values())
        return sum(self._used_bytes.values()) - values

    @property
    def _used_bytes(self) -> dict[str, int]:
        """What values and workspaces take of each memory that the arena is made of."""
        sizes = {region: size for region, (size, _) in self.program.regions.items()}
        for i, at in self.workspaces.items():
            sizes[at.region] = max(sizes[at.region], at.offset + self.layers[i].scratch_bytes)
        return sizes

    @property
    def arena_bytes(self) -> int:
        """
        Bytes that the caller provides. With launches the arena is the accelerator's memory
        image, whose size is given, and the workspace is on the stack.
        """
        return sum(self.region_bytes.values())

    @property
    def region_bytes(self) -> dict[str, int]:
        """The same of each memory that the arena is made of."""
        sizes = {region: max(size, 1) for region, size in self._used_bytes.items()}
        if self.program.state_bytes:
            region = self.program.state_region
            sizes[region] = aligned(sizes[region], STATE_ALIGNMENT) + self.program.state_bytes
        return sizes

    def memory_totals(self) -> dict[str, object]:
        """The arena and its parts besides values, for the totals of a report."""
        totals: dict[str, object] = {
            "arena_bytes": self.arena_bytes,
            "workspace_bytes": self.workspace_bytes,
        }
        if self.program.states:
            totals["state_bytes"] = self.program.state_bytes
        return totals

    @property
    def state_offset(self) -> int:
        """Where states begin, behind everything else in their memory."""
        return self.region_bytes[self.program.state_region] - self.program.state_bytes


def arena_names(model: Model) -> list[str]:
    """What the memories of the arena are called as parameters."""
    return [f"region_{region}" if region else "arena" for region in model.program.regions]


def parameters(model: Model) -> list[str]:
    """Declarations of the inputs and outputs."""
    return declarations(model.program.inputs, model.program.outputs, model.options.prefix)


def declarations(
    inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], prefix: Prefix
) -> list[str]:
    """The parameters of a network with these inputs and outputs."""
    tensors = [*inputs, *outputs]
    names = identifiers([t.name for t in tensors], prefix.name)
    return [
        f"{'const ' if i < len(inputs) else ''}{tensor_c_type(t)} *{name}"
        for i, (t, name) in enumerate(zip(tensors, names, strict=True))
    ]


def tensor_c_type(tensor: TensorInfo) -> str:
    """The C type of a tensor's elements."""
    return C_TYPES.get(tensor.dtype, f"{tensor.dtype}_t")


def returned_name(program: Program, index: int) -> str:
    """The constant that output number `index` is copied from."""
    return f"{program.name}_output_{index}"


def shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
