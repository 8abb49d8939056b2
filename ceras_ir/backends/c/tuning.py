"""
Choose register tiles and scratch memory of layers by running candidates on the machine.

Each round builds the network with one more choice for every layer at once, and times all layers by
the trace hook: what is best for a layer is best whatever the others do. The network of the best
choices is then run in turns with the one of the model of cycles, and kept only if it is faster.
What was found is kept in the user's cache under all that it depends on.
"""

import io
import json
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.hints import isa

from ceras_ir.backends.c.emitter import build, files_of
from ceras_ir.backends.c.interface import buffers, fill_inputs
from ceras_ir.backends.c.kernels import filled
from ceras_ir.backends.c.model import Model
from ceras_ir.backends.c.names import MODEL
from ceras_ir.backends.c.options import COptions, LayerChoice
from ceras_ir.backends.c.runner import compiler
from ceras_ir.support.content_cache import ContentCache, key_of
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import cache_folder, host_flags
from ceras_ir.support.terminal import progress

RANKS, TUNED_WORKSPACES = 6, (32 << 10, 1 << 20)
"""How many register tiles are tried, and which amounts of scratch memory besides the default."""

RUNS, TURNS = 40, 5
"""Runs of a candidate, and how often the two networks that are left take turns."""

WORTHWHILE = 0.97
"""A layer changes only for a choice that takes less than this share: times are noisy."""

PROGRAM = """\
/* Times every layer: the least of some runs, in processor time; made by ceras_ir to tune. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model.h"

static double best[@LAYERS@ + 1], mark;

static double now(void)
{
#ifdef CLOCK_PROCESS_CPUTIME_ID
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * 1e6 + time.tv_nsec * 1e-3;
#else
  return clock() * 1e6 / CLOCKS_PER_SEC;
#endif
}

void model_trace(int layer, const void *data, unsigned long bytes)
{
  const double elapsed = now() - mark;
  (void)data;
  (void)bytes;
  if (elapsed < best[layer]) best[layer] = elapsed;
  mark = now();
}

@BUFFERS@
int main(void)
{
  for (int i = 0; i <= @LAYERS@; ++i) best[i] = 1e30;
@FILL@
  for (int run = 0; run < @RUNS@; ++run) {
    const double start = mark = now();
    if (model_run(@ARGUMENTS@) != MODEL_OK) return 1;
    const double elapsed = now() - start;
    if (elapsed < best[@LAYERS@]) best[@LAYERS@] = elapsed;
  }
  printf("[");
  for (int i = 0; i <= @LAYERS@; ++i) printf("%s%.3f", i ? ", " : "", best[i]);
  printf("]\\n");
  return 0;
}
"""


@dataclass(frozen=True)
class Tuned:
    """What was chosen, and what it was worth."""

    choices: tuple[tuple[int, LayerChoice], ...]
    before_us: float
    after_us: float
    seconds: float
    """Of the search, when it was made."""

    def line(self) -> str:
        """For the user."""
        what = f"{len(self.choices)} layers" if self.choices else "no layer"
        return (
            f"tuned: {self.after_us:.1f} us instead of {self.before_us:.1f}, "
            f"{self.before_us / self.after_us - 1:.1%} faster, {what} changed; the search took "
            f"{self.seconds:.0f} s"
        )


def tuned(module: ModuleOp, options: COptions, runner: str | None) -> Tuned:
    """The best choices for `module` on the machine of `options`, from the cache if known."""
    # The program that is timed has its constants in itself, and nothing is named after the user.
    options = replace(options, title=MODEL.name, weights="source", prefix=MODEL)
    first = build(module, options)
    cache = ContentCache(cache_folder() / "tuning")
    command = [*_compiler(options), *host_flags("a tuned network")] if runner is None else [runner]
    key = key_of("tuning 1", _printed(first), *command, *_compiler(options))

    def search() -> bytes:
        return json.dumps(_searched(module, options, first, runner)).encode()

    found: object = json.loads(cache.computed(key, search))
    assert isa(found, dict[str, object])
    choices = found["choices"]
    assert isa(choices, list[list[int]])
    before, after, seconds = (found[name] for name in ("before_us", "after_us", "seconds"))
    assert isinstance(before, float) and isinstance(after, float) and isinstance(seconds, float)
    return Tuned(tuple((n, LayerChoice(*c)) for n, *c in choices), before, after, seconds)


def _printed(model: Model) -> bytes:
    """The text of a model; constants do not change times."""
    stream = io.BytesIO()
    for artefact in files_of(model):
        if artefact.path in ("model.c", "model_kernels.h", "model.h"):
            artefact.write(stream)
    return stream.getvalue()


def _searched(
    module: ModuleOp, options: COptions, first: Model, runner: str | None
) -> dict[str, object]:
    started = time.monotonic()
    default = LayerChoice(options.tile_rank, options.workspace, options.winograd)
    candidates = [replace(default, tile_rank=rank) for rank in range(1, RANKS)]
    candidates += [replace(default, workspace=size) for size in TUNED_WORKSPACES]
    if default.winograd:
        candidates.append(replace(default, winograd=0))
    count = len(first.layers)
    with TemporaryDirectory(prefix="ceras-tune-") as name:
        folder = Path(name)
        baseline = _program(first, folder / "default")
        own = _run(baseline, runner, count)
        best: dict[int, tuple[float, LayerChoice]] = {}
        known = {index: layer.lines for index, layer in enumerate(first.layers)}
        for number, candidate in enumerate(progress(candidates, "tuning")):
            every = tuple((index, candidate) for index in range(count))
            model = build(module, replace(options, choices=every))
            changed = [i for i, layer in enumerate(model.layers) if layer.lines != known[i]]
            if not changed:
                continue
            times = _run(_program(model, folder / str(number)), runner, count)
            for index in changed:
                limit = best[index][0] if index in best else WORTHWHILE * own[index]
                if times[index] < limit:
                    best[index] = times[index], candidate
        choices = tuple((index, choice) for index, (_, choice) in sorted(best.items()))
        before = after = own[count]
        if choices:
            model = build(module, replace(options, choices=choices))
            program = _program(model, folder / "tuned")
            pairs = [(baseline, program)] * TURNS
            times = [[_run(each, runner, count)[count] for each in pair] for pair in pairs]
            before, after = (min(column) for column in zip(*times, strict=True))
            if after >= before:
                choices, after = (), before
    spelled = [[n, c.tile_rank, c.workspace, c.winograd] for n, c in choices]
    seconds = round(time.monotonic() - started, 1)
    return {"choices": spelled, "before_us": before, "after_us": after, "seconds": seconds}


def _compiler(options: COptions) -> list[str]:
    machine = options.machine
    command = compiler() if machine.is_native else [machine.compiler]
    return [*command, "-std=c99", "-O3", "-ffp-contract=off", *machine.flags, *machine.link_flags]


def _program(model: Model, folder: Path) -> Path:
    """The program that times the layers of `model`, compiled."""
    folder.mkdir()
    for artefact in files_of(model):
        with open(folder / artefact.path, "wb") as stream:
            artefact.write(stream)
    text = filled(
        PROGRAM,
        {
            "LAYERS": len(model.layers),
            "BUFFERS": "\n".join(buffers(model)),
            "FILL": "\n".join(fill_inputs(model)),
            "RUNS": RUNS,
            "ARGUMENTS": ", ".join(f"{name}_data" for name in model.names),
        },
    )
    (folder / "tune.c").write_text(text, encoding="utf-8")
    sources = [str(folder / name) for name in ("model.c", "model_weights.c", "tune.c")]
    binary = folder / "tune"
    _call([*_compiler(model.options), "-DMODEL_TRACE", f"-I{folder}", *sources, "-o", str(binary)])
    return binary


def _run(binary: Path, runner: str | None, count: int) -> list[float]:
    """Microseconds of each layer and, last, of the network."""
    words = [str(binary)] if runner is None else shlex.split(runner)
    output = _call([word.replace("{binary}", str(binary)) for word in words])
    try:
        times: object = json.loads(output.strip().splitlines()[-1])
    except (ValueError, IndexError):
        times = None
    if not isa(times, list[float]) or len(times) != count + 1:
        raise InputError(
            f"--tune: '{words[0]}' did not print the times of {count} layers; the program prints "
            "them as its last line, which the runner must hand on"
        )
    return times


def _call(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InputError(f"--tune: cannot run '{command[0]}': {error.strerror}") from None
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise InputError(f"--tune: '{command[0]}' failed with status {done.returncode}: {said}")
    return done.stdout
