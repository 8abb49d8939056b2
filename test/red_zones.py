"""
Emit C in which inaccessible bytes separate all values, for the address sanitizer.

In the arena of a network, a value and a workspace are next to other bytes of the arena, so that the
sanitizer cannot detect an access past their end. Here no values share memory unless they are in
place, at least `GAP` bytes follow each value and each array of a workspace, and the C code declares
these bytes inaccessible. They begin at the byte after the last element. The same holds for `GAP`
bytes after each input and output in `main.c`. The sanitizer itself separates constants.
Before each run, values and workspaces contain the byte `NOISE`, and so do outputs at the start, so
that a kernel that relies on zeros in memory computes other results.

Compilers do not check masked stores and assembler. Therefore the gaps contain `NOISE` too, and the
program stops if a run has changed them.

Layers, kernels and constants are those of the compiler; only offsets in the arena differ.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from unittest.mock import patch

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c import model, program
from ceras_ir.backends.c.emitter import build, files_of
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.model import PrintedModel
from ceras_ir.backends.c.program import Arena, Program, StateMemory
from ceras_ir.network.artefacts import Artefact
from ceras_ir.transforms.memory import allocate_blocks
from ceras_ir.transforms.memory.liveness import byte_size
from ceras_ir.transforms.memory.offsets import Span, aligned

GAP = 64
"""The minimal distance of two values in bytes; a vector of AVX-512 has as many."""

NOISE = 0xA5
"""The byte in memory that no kernel has written."""

MACROS = """\
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>
#define RED_ZONE(p, bytes) __asan_poison_memory_region(p, bytes)
#define USABLE(p, bytes) __asan_unpoison_memory_region(p, bytes)
static inline void check_gap(const unsigned char *gap)
{
  USABLE(gap, @GAP@);
  for (int i = 0; i < @GAP@; ++i)
    if (gap[i] != @NOISE@) abort();
}
""".replace("@GAP@", str(GAP)).replace("@NOISE@", f"{NOISE:#x}")


class _Apart:
    """A memory plan in which no buffers share bytes."""

    def __init__(self, spans: Sequence[Span], alignment: int):
        step = max(alignment, GAP)
        self.offsets: list[int] = []
        self.peak = 0
        for span in spans:
            self.offsets.append(self.peak)
            self.peak += aligned(span.size, step) + GAP


def _workspaces_apart(program: Program, sizes: Mapping[int, int]) -> dict[int, Arena]:
    """Place each workspace at bytes that nothing else uses."""
    found: dict[int, Arena] = {}
    end = aligned(program.arena_bytes, GAP)
    for step, size in sizes.items():
        if size:
            found[step] = Arena(end)
            end += aligned(size, GAP) + GAP
    return found


_scratch = Layer.scratch


def _scratch_apart(layer: Layer, ctype: str, name: str, size: int, itemsize: int) -> str:
    """Declare an array of the workspace, which is accessible from here on, and a gap after it."""
    result = _scratch(layer, ctype, name, size, itemsize)
    layer.line(f"USABLE({name}, {size * itemsize});")
    layer.scratch_bytes += GAP
    return result


_own_scratch = Layer.own_scratch


def _own_scratch_apart(layer: Layer, ctype: str, name: str, size: int, itemsize: int) -> list[str]:
    """Declare an array of each thread, and a gap after it that is inaccessible in each."""
    lines = _own_scratch(layer, ctype, name, size, itemsize)
    layer.scratch_bytes += GAP
    layer.own_bytes = max(layer.own_bytes, layer.scratch_bytes)
    used = size * itemsize
    gap = f"(unsigned char *){name} + {used}, {aligned(used, GAP) + GAP - used}"
    return [*lines, f"USABLE({name}, {used});", f"RED_ZONE({gap});"]


@contextmanager
def planned_apart() -> Generator[None]:
    """Plan the memory of networks with a gap after each buffer."""
    with patch.object(allocate_blocks, "plan_offsets", _Apart):
        yield


@contextmanager
def apart() -> Generator[None]:
    """Plan and print networks with gaps: planning and `emit_apart` are inside of this context."""
    with (
        planned_apart(),
        patch.object(model, "place_workspaces", _workspaces_apart),
        patch.object(program, "STATE_ALIGNMENT", GAP),
        patch.object(Layer, "scratch", _scratch_apart),
        patch.object(Layer, "own_scratch", _own_scratch_apart),
    ):
        yield


def emit_apart(module: ModuleOp, options: COptions | None = None) -> list[Artefact]:
    """Return the C files of a network that was planned in `apart`, with inaccessible gaps."""
    printed = build(module, options or COptions())
    assert list(printed.program.regions) == [""] and not printed.program.launches
    return [_with_red_zones(file, printed) for file in files_of(printed)]


def _with_red_zones(file: Artefact, printed: PrintedModel) -> Artefact:
    if file.path == "main.c":
        return _with_noise(file)
    if file.path != printed.options.prefix.renamed("model.c"):
        return file
    file.write(stream := BytesIO())
    text = MACROS + stream.getvalue().decode("ascii")
    for body in printed.bodies:
        head = rf"^MODEL_LAYER void {body.program.name}\([^)]*\)\n{{\n"
        text = _inserted(
            text, printed.options.prefix.renamed(head), list(_statements(body, "base"))
        )
    base = "((unsigned char *)arena)"
    start = [*_noise(printed, base), *_statements(printed, base)]
    text = _inserted(
        text, printed.options.prefix.renamed(r"^int model_run_in\([^)]*\)\n{\n"), start
    )
    return Artefact.of_text(file.path, file.description, _with_checks(text, printed, base))


def _with_checks(text: str, printed: PrintedModel, base: str) -> str:
    """Insert checks of the gaps after values before the successful return of a run."""
    head, call, run = text.partition(printed.options.prefix.renamed("\nint model_run_in("))
    end = printed.options.prefix.renamed("\n  return MODEL_OK;\n")
    assert end in run
    checks = "".join(f"\n  check_gap({base} + {gap});" for gap in _gaps(printed))
    return head + call + run.replace(end, checks + end, 1)


def _gaps(printed: PrintedModel) -> Iterator[int]:
    """List the offsets of the gaps after values. Values in place share a gap."""
    end = -1
    for offset, size in sorted(set(_ranges(printed))):
        if offset >= printed.state_offset:
            break
        if end in range(offset):
            yield end
        end = max(end, offset + size)
    if end >= 0:
        yield end


def _with_noise(file: Artefact) -> Artefact:
    """Return `main.c` with noise in the arrays of inputs and outputs, and a gap after each."""
    file.write(stream := BytesIO())
    text = stream.getvalue().decode("ascii")
    arrays = r"^static (\w+) (\w+)\[(\w+)\];$"
    names = [name for _, name, _ in re.findall(arrays, text, re.MULTILINE)]
    text = re.sub(arrays, ARRAY, text, flags=re.MULTILINE)
    lines = [f"  memset(&{name}_apart, {NOISE:#x}, sizeof {name}_apart);" for name in names]
    lines += [f"  RED_ZONE({name}_apart.gap, {GAP});" for name in names]
    text = _inserted(text, r"^  FILE \*stream = NULL;\n", lines)
    checks = "".join(f"  check_gap({name}_apart.gap);\n" for name in names)
    run = '  stream = fopen(argv[2], "wb");\n'
    assert text.count(run) == 1
    return Artefact.of_text(file.path, file.description, MACROS + text.replace(run, checks + run))


ARRAY = rf"""static struct {{
  \1 values[\3];
  unsigned char gap[{GAP}];
}} \2_apart;
#define \2 \2_apart.values"""
"""The replacement of the declaration of an array by one with a gap."""


def _inserted(text: str, after: str, lines: Sequence[str]) -> str:
    added = "".join(f"{line}\n" for line in lines)
    text, count = re.subn(after, lambda found: found[0] + added, text, flags=re.MULTILINE)
    assert count == 1, after
    return text


def _noise(printed: PrintedModel, base: str) -> Iterator[str]:
    """List C statements that fill an arena, except for the states of the network."""
    yield f"  USABLE({base}, {printed.state_offset});"
    yield f"  memset({base}, {NOISE:#x}, {printed.state_offset});"


def _statements(printed: PrintedModel, base: str) -> Iterator[str]:
    """List C statements that make all bytes of an arena inaccessible except those of values."""
    yield f"  RED_ZONE({base}, {printed.arena_bytes});"
    for offset, size in sorted(set(_ranges(printed))):
        yield f"  USABLE({base} + {offset}, {size});"


def _ranges(printed: PrintedModel) -> Iterator[tuple[int, int]]:
    """List the offsets of all values and states in the arena, with their sizes in bytes."""
    for value, place in printed.program.places.items():
        if isinstance(place, Arena):
            yield place.offset, byte_size(value)
        elif isinstance(place, StateMemory):
            yield printed.state_offset + place.offset, byte_size(value)
    for stored in printed.program.states:
        for place in (stored.place, stored.next or stored.place):
            yield printed.state_offset + place.offset, byte_size(stored.state.argument)
