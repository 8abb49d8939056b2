"""
A printed network: what the writers of the individual files share.

This includes functions that several layers call, assertions that the files of a model were compiled
together, the static memory of `model_run`, and the states that a network keeps between runs.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ceras_ir.backends.c.constants import ConstantPool
from ceras_ir.backends.c.kernels import Kernels
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.names import Prefix, identifiers
from ceras_ir.backends.c.options import COptions
from ceras_ir.backends.c.program import STATE_ALIGNMENT, Arena, Program, place_workspaces
from ceras_ir.backends.c.values import value_type
from ceras_ir.dialects.graph import ConstantOp, quantized_element
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.transforms.memory.liveness import byte_size
from ceras_ir.transforms.memory.offsets import aligned
from ceras_ir.transforms.memory.slices import element_bytes

# A C function computes several layers that differ in nothing but their places: the steps of an
# unrolled loop, and the heads of attention.


CONSTANT = re.compile(r"\bLAYER_\d+_\w+")
"""What a layer calls a constant of its own."""


def shared_functions(layers: Sequence[Layer], pool: ConstantPool) -> dict[int, int]:
    """
    Of each layer that has something to do, the first one with the same parameters and the same
    text; constants that are stored once are the same. Both by their index.
    """
    stored = _stored_names(pool)
    first: dict[str, int] = {}
    shared: dict[int, int] = {}
    for layer in layers:
        if layer.lines:
            text = "\n".join([declared(layer), *layer.lines])
            text = CONSTANT.sub(lambda name: stored.get(name[0], name[0]), text)
            shared[layer.index] = first.setdefault(text, layer.index)
    return shared


def declared(layer: Layer) -> str:
    """The parameters of a layer's function."""
    return ", ".join(text for text, _ in layer.parameters) or "void"


def _stored_names(pool: ConstantPool) -> dict[str, str]:
    """Of constants that are not stored, the one that is, where all variants agree on it."""
    known: defaultdict[str, set[str]] = defaultdict(set)
    for copy, constant in pool.copies:
        known[copy.name].add(constant.name)
    for constant in pool.constants:
        known[constant.name].add(constant.name)
    return {name.upper(): next(iter(to)).upper() for name, to in known.items() if len(to) == 1}


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


# Two models have files of the same names. If a file of another model is used, the numbers of
# elements differ somewhere, and compilation stops, so that the program does not read wrong data.


def consistency_checks(model: Model) -> str:
    """One assertion per constant, for where `model.h` and `model_weights.h` are included."""
    lines = [
        "/* Compilation stops here if a file of another model is mixed in. */",
        f"MODEL_STATIC_ASSERT(MODEL_ARENA_BYTES == {model.arena_bytes}, arena_of_this_model);",
    ]
    lines += [
        f"MODEL_STATIC_ASSERT(MODEL_{name.upper()}_SIZE == {tensor.size}, {name}_of_this_model);"
        for tensor, name in zip(model.tensors, model.names, strict=True)
    ]
    if model.options.weights == "source":
        for c in model.pool.constants:
            lines += c.conditional(
                f"MODEL_STATIC_ASSERT(sizeof({c.name.upper()}) == {c.nbytes}, {c.name}_size);"
            )
    return "\n".join(lines) + "\n"


def own_arrays(model: Model) -> list[str]:
    """What the arrays are called, one for each memory that the arena is made of."""
    return [f"arena_{region}" if region else "arena" for region in model.program.regions]


def own_memory(model: Model, indent: str = "") -> list[str]:
    """Their definitions."""
    lines = ["/* A union, so that any type of element may be stored in it. */"]
    for name, (region, size) in zip(own_arrays(model), model.region_bytes.items(), strict=True):
        section = f"MODEL_SECTION_{region.upper()} " if region else ""
        lines += [
            f"static {section}MODEL_ALIGN(64) union {{",
            f"  unsigned char bytes[{size}];",
            "  float f32;",
            "  int64_t i64;",
            f"}} {name};",
        ]
    return [indent + line for line in lines]


# States are bytes behind everything else in a memory of the arena, which stay from run to run. The
# next state is written in place if nothing reads the last one any more, and else copied there at
# the end of a run. `model_reset_in` starts again in memory of the caller, `model_reset` in that of
# `model_run`, which starts with that by itself.


def state_macro(model: Model) -> str:
    """Where the states begin."""
    if not model.program.states:
        return ""
    return f"/* Where states begin, behind the rest. */\n#define MODEL_STATE {model.state_offset}\n"


def keep_states(program: Program, names: list[str]) -> list[str]:
    """Statements at the end of a run: copies of the next states that are not in place."""
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
                first.append(f"  memcpy({source}, {program.pointer(value, names)}, {size});")
        then.append(f"  memcpy({program.kept(kind, kept.place)}, {source}, {size});")
    return first + then


def reset_functions(model: Model) -> str:
    """`model_reset_in`: the first states."""
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
        if zero == 0 or element_bytes(argument) == 1:
            lines.append(f"  memset({place}, {zero}, {size});")
        else:
            count = size // element_bytes(argument)
            lines.append(f"  for (int32_t i = 0; i < {count}; ++i) {place}[i] = {zero};")
    return "\n".join([*lines, "  return MODEL_OK;", "}", ""])


def reset_own(model: Model) -> list[str]:
    """`model_reset`, and whether it was called."""
    arguments = ", ".join(f"{name}.bytes" for name in own_arrays(model))
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
