"""
States in C: bytes behind everything else in a memory of the arena, which stay from run to run.

The next state is written in place where nothing reads the last one any more, and else copied there
at the end of a run. `model_reset_in` begins anew in memory of the caller's, `model_reset` in that
of `model_run`, which begins with that by itself.
"""

from ceras_ir.backends.c.model import Model, arena_names, returned_name
from ceras_ir.backends.c.own_memory import own_arrays
from ceras_ir.backends.c.program import Program
from ceras_ir.backends.c.types import value_type
from ceras_ir.dialects.graph import ConstantOp, quantized_element
from ceras_ir.transforms.memory.analysis.liveness import byte_size
from ceras_ir.transforms.memory.analysis.slices import element_bytes


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
