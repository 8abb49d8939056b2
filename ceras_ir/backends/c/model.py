"""
Collect the data of a printed network that the writers of the individual files share.

The module also prints shared functions of layers, assertions that all files belong to the same
model, the static memory of `model_run`, and the states that persist between runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ceras_ir.backends.c.constants import ConstantPool
from ceras_ir.backends.c.functions import LayerFunctions, layer_functions
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.names import Prefix, identifiers
from ceras_ir.backends.c.program import (
    RING_BYTES,
    STATE_ALIGNMENT,
    Arena,
    Program,
    StateMemory,
    place_workspaces,
)
from ceras_ir.backends.c.values import Kernels, value_type
from ceras_ir.dialects.graph import ConstantOp, quantized_element
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import node_name
from ceras_ir.targets import ArenaBuffer
from ceras_ir.transforms.memory.liveness import byte_size
from ceras_ir.transforms.memory.offsets import aligned
from ceras_ir.transforms.memory.slices import element_bytes

ARENA_ALIGNMENT = 8
"""The alignment in bytes of the widest element; a larger alignment is only faster."""

C_TYPES = {"float32": "float", "bool": "uint8_t"}
"""numpy types with other names in C."""


@dataclass(frozen=True)
class LengthsCode:
    """The shared C code of the networks of several lengths, as text."""

    functions: LayerFunctions
    tables: Sequence[str]
    """The declarations of tables with a row for each length."""
    rows: Sequence[str]
    """The declarations of the rows for the length with index `model_at`."""
    steps: Sequence[str]
    """The statements for the length with index `model_at`."""


@dataclass(frozen=True)
class PrintedModel:
    """A network after printing: the C functions of layers, the constants and the kernels."""

    options: COptions
    program: Program
    layers: list[Layer]
    pool: ConstantPool
    kernels: Kernels
    bodies: Sequence["PrintedModel"] = ()
    """Functions of loops and branches, each after the functions that it calls."""
    first: int = 0
    """The index of the first layer. Functions number their layers consecutively."""
    members: Sequence["PrintedModel"] = ()
    """The networks of several lengths, ascending; the fields above are those of the last."""
    lengths: Sequence[int] = ()
    code: LengthsCode | None = None

    def layer(self, index: int) -> Layer:
        return self.layers[index - self.first]

    @property
    def tensors(self) -> list[TensorInfo]:
        """The inputs, then the outputs: the order of the parameters of `model_run`."""
        return [*self.program.inputs, *self.program.outputs]

    @property
    def names(self) -> list[str]:
        return identifiers([t.name for t in self.tensors], self.options.prefix.name)

    @property
    def length_name(self) -> str:
        return length_name(self.names)

    @cached_property
    def functions(self) -> LayerFunctions:
        """The C functions of the layers, without those of `bodies`."""
        if self.code is not None:
            return self.code.functions
        return layer_functions(self.layers, self.pool)

    @property
    def scratch_bytes(self) -> int:
        return max((layer.scratch_bytes for layer in self.layers), default=0)

    @property
    def own_bytes(self) -> int:
        """The bytes of temporary memory of each further thread, also in other functions."""
        own = (layer.own_bytes for layer in self.layers)
        return max((*own, *(other.own_bytes for other in (*self.bodies, *self.members))), default=0)

    @cached_property
    def workspaces(self) -> dict[int, Arena]:
        """
        The place in the arena of the workspace (temporary memory) of each layer that has one, by
        layer index. It is empty if the network launches an accelerator, because workspaces are then
        on the stack.
        """
        if self.program.launches:
            return {}
        sizes = {i: layer.scratch_bytes for i, layer in enumerate(self.layers)}
        return place_workspaces(self.program, sizes)

    @property
    def workspace_bytes(self) -> int:
        """
        The bytes by which the workspaces of layers enlarge the arena beyond the planned values.
        """
        if self.members:
            return max(member.workspace_bytes for member in self.members)
        values = sum(size for size, _ in self.program.regions.values())
        return sum(self._used_bytes.values()) - values

    @property
    def _used_bytes(self) -> dict[str, int]:
        sizes = {region: size for region, (size, _) in self.program.regions.items()}
        for member in self.members:
            for region, size in member._used_bytes.items():
                sizes[region] = max(sizes[region], size)
        for i, at in self.workspaces.items():
            sizes[at.region] = max(sizes[at.region], at.offset + self.layers[i].scratch_bytes)
        return sizes

    @property
    def arena_bytes(self) -> int:
        """
        The bytes of memory that the caller of the network provides. If it launches an accelerator,
        the arena is the shared memory image, and workspaces are on the stack.
        """
        return sum(self.region_bytes.values())

    @property
    def region_bytes(self) -> dict[str, int]:
        sizes = {region: max(size, 1) for region, size in self._used_bytes.items()}
        if self.program.state_bytes:
            region = self.program.state_region
            sizes[region] = aligned(sizes[region], STATE_ALIGNMENT) + self.program.state_bytes
        return sizes

    def memory_totals(self) -> dict[str, object]:
        """
        Return the bytes of the arena, and of the workspaces and states in it, as entries of the
        totals in the report.
        """
        totals: dict[str, object] = {
            "arena_bytes": self.arena_bytes,
            "workspace_bytes": self.workspace_bytes,
        }
        if self.program.states:
            totals["state_bytes"] = self.program.state_bytes
        return totals

    @property
    def added_buffers(self) -> list[ArenaBuffer]:
        """
        The workspaces and states as buffers of the report, because the memory plan of the module
        does not contain them.
        """
        program = self.program
        count = len(program.steps)
        found = [
            ArenaBuffer(
                node_name(program.steps[i]),
                "workspace",
                at.offset,
                self.layers[i].scratch_bytes,
                i,
                i + 1,
                at.region,
            )
            for i, at in self.workspaces.items()
        ]
        for stored in program.states:
            is_ring = stored.state.result in program.rings
            size = byte_size(stored.state.argument) + (RING_BYTES if is_ring else 0)
            size = aligned(size, STATE_ALIGNMENT)
            for place in dict.fromkeys([stored.place, stored.next or stored.place]):
                start = self.state_offset + place.offset
                region = program.state_region
                found.append(ArenaBuffer(stored.state.name, "state", start, size, 0, count, region))
        return found

    @property
    def state_offset(self) -> int:
        """The offset of the states in their region in bytes, after all values and workspaces."""
        return self.region_bytes[self.program.state_region] - self.program.state_bytes


def arena_names(model: PrintedModel) -> list[str]:
    return [f"region_{region}" if region else "arena" for region in model.program.regions]


def parameters(model: PrintedModel) -> list[str]:
    found = declarations(model.program.inputs, model.program.outputs, model.options.prefix)
    return [*found, f"int32_t {model.length_name}"] if model.lengths else found


def argument_names(model: PrintedModel) -> list[str]:
    return [*model.names, model.length_name] if model.lengths else model.names


def length_name(names: Sequence[str]) -> str:
    """Return the parameter that selects one of several lengths, after parameters `names`."""
    return identifiers([*names, "length"])[-1]


def declarations(
    inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], prefix: Prefix
) -> list[str]:
    tensors = [*inputs, *outputs]
    names = identifiers([t.name for t in tensors], prefix.name)
    return [
        f"{'const ' if i < len(inputs) else ''}{tensor_c_type(t)} *{name}"
        for i, (t, name) in enumerate(zip(tensors, names, strict=True))
    ]


def tensor_c_type(tensor: TensorInfo) -> str:
    """Return the C type of the elements of a graph input or output."""
    return C_TYPES.get(tensor.dtype, f"{tensor.dtype}_t")


def returned_name(program: Program, index: int) -> str:
    """Return the C name of the constant that the network copies to graph output number `index`."""
    return f"{program.name}_output_{index}"


# Files of two models have equal names. If a file of another model is used, the numbers of elements
# differ, so compilation stops and the program cannot use wrong data.


def consistency_checks(model: PrintedModel, suffix: str = "") -> str:
    """
    Return C assertions that fail if source files of two models are mixed: one for each size in
    `model.h` and, with weights in the source, for each constant. Their names end with `suffix`,
    which differs between the files of a program.
    """
    lines = [
        "/* Compilation stops here if a file of another model is mixed in. */",
        f"MODEL_STATIC_ASSERT(MODEL_ARENA_BYTES == {model.arena_bytes}, "
        f"arena_of_this_model{suffix});",
    ]
    lines += [
        f"MODEL_STATIC_ASSERT(MODEL_{name.upper()}_SIZE == {tensor.size}, "
        f"{name}_of_this_model{suffix});"
        for tensor, name in zip(model.tensors, model.names, strict=True)
    ]
    if model.options.weights == "source":
        for c in model.pool.constants:
            lines += c.conditional(
                f"MODEL_STATIC_ASSERT(sizeof({c.name.upper()}) == {c.nbytes}U, "
                f"{c.name}_size{suffix});"
            )
    return "\n".join(lines) + "\n"


def static_arrays(model: PrintedModel) -> list[str]:
    """Return the C names of the static arrays that hold the arena, one for each region."""
    return [f"arena_{region}" if region else "arena" for region in model.program.regions]


def static_memory(model: PrintedModel, indent: str = "") -> list[str]:
    lines = ["/* A union, so that any type of element may be stored in it. */"]
    for name, (region, size) in zip(static_arrays(model), model.region_bytes.items(), strict=True):
        section = f"MODEL_SECTION_{region.upper()} " if region else ""
        lines += [
            f"static {section}MODEL_ALIGN(64) union {{",
            f"  unsigned char bytes[{size}];",
            "  float f32;",
            "  int64_t i64;",
            f"}} {name};",
        ]
    return [indent + line for line in lines]


# States are bytes after all other bytes of a region, which persist between runs. The next state is
# written in place if the last state has no later use. Otherwise it is copied at the end of a run.
# `model_reset_in` resets the memory of the caller. `model_reset` resets the static memory of
# `model_run`, which calls it before the first run.


def state_macro(model: PrintedModel) -> str:
    if not model.program.states:
        return ""
    about = "/* The offset of the states, after all other bytes. */"
    return f"{about}\n#define MODEL_STATE {model.state_offset}\n"


def keep_states(program: Program, names: list[str]) -> list[str]:
    """
    Return the C statements at the end of a run that copy each next state to the memory that stores
    the state. States that are computed in place need no copy. `names` are the C parameters of graph
    inputs, then of graph outputs.
    """
    first: list[str] = []
    then: list[str] = []
    for i, kept in enumerate(program.states, len(program.outputs)):
        if not kept.is_copied:
            continue
        value, kind = kept.state.result, value_type(kept.state.result)
        size = byte_size(value)
        if isinstance(value.owner, ConstantOp):
            source = returned_name(program, i).upper()
        elif kept.next is None:
            source = program.pointer(value, names)
        else:
            source = program.kept(kind, kept.next)
            if program.places[value] != kept.next:
                first.append(f"  (void)memcpy({source}, {program.pointer(value, names)}, {size});")
        then.append(f"  (void)memcpy({program.kept(kind, kept.place)}, {source}, {size});")
    return first + then


def reset_functions(model: PrintedModel) -> str:
    """
    Return the text of the C function `model_reset_in`, which sets all states to 0 (to the zero
    point if they are quantized).
    """
    program = model.program
    arenas = arena_names(model)
    lines = [f"int model_reset_in({', '.join(f'void *{name}' for name in arenas)})", "{"]
    if "" in program.regions:
        lines.append("  unsigned char *const base = (unsigned char *)arena;")
    lines += [f"  (void){name};" for name in arenas[1:]]
    lines += [
        f"  if ((uintptr_t){name} % MODEL_ARENA_ALIGNMENT != 0) return MODEL_BAD_ALIGNMENT;"
        for name in arenas
    ]
    for kept in program.states:
        argument = kept.state.argument
        element, size = quantized_element(argument), byte_size(argument)
        zero = 0 if element is None else element.zero_point
        kind = value_type(argument)
        place = program.kept(kind, kept.place)
        if kept.state.result in program.rings:
            # The index of the oldest row follows the rows.
            at = program.kept("unsigned char", StateMemory(kept.place.offset + size))
            lines.append(f"  (void)memset({at}, 0, {RING_BYTES});")
        if zero == 0 or element_bytes(argument) == 1:
            lines.append(f"  (void)memset({place}, {zero}, {size});")
        else:
            count = size // element_bytes(argument)
            lines.append(f"  for (int32_t i = 0; i < {count}; ++i) {place}[i] = {zero};")
    return "\n".join([*lines, "  return MODEL_OK;", "}", ""])


def static_reset(model: PrintedModel) -> list[str]:
    """
    Return the lines of the C function `model_reset`, which resets the states in static memory, and
    of the flag `model_is_reset` that it sets.
    """
    arguments = ", ".join(f"{name}.bytes" for name in static_arrays(model))
    return [
        "static int model_is_reset;",
        "",
        "void model_reset(void)",
        "{",
        f"  (void)model_reset_in({arguments});",
        "  model_is_reset = 1;",
        "}",
        "",
    ]
