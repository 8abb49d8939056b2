"""
What to do about a network that its board does not hold: options under which it was compiled, and
fits. Few changes are tried, the least first, until one fits or time is up; nothing is written.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.support.diagnostics import DoesNotFitError, InputError
from ceras_ir.support.terminal import progress

SECONDS = 60.0
"""No change is tried that would end later, if it took as long as the longest compile so far."""


@dataclass(frozen=True)
class Trial:
    """One change of the options."""

    change: str
    """As the user would write it."""
    options: BuildOptions
    advice: str = ""
    """What to know about the change."""


def trials(options: BuildOptions) -> Iterator[Trial]:
    """The changes of resolved options, the least first: what costs least accuracy and work."""
    if options.is_quantized:
        if options.io == "model":
            yield Trial("--io int8", replace(options, io="int8"))
        if options.budget != 0:
            yield Trial("--budget 0", replace(options, budget=0.0))
            if options.io == "model":
                both = replace(options, io="int8", budget=0.0)
                yield Trial("--budget 0 --io int8", both)
        return
    data = "--calibrate DATA.npz keeps its accuracy"
    int8 = replace(options, quantize="int8")
    yield Trial("--quantize int8", int8, data)
    yield Trial("--quantize int8 --io int8", replace(int8, io="int8"), data)
    both = replace(int8, io="int8", budget=0.0)
    yield Trial("--quantize int8 --io int8 --budget 0", both, data)


def remedied(
    error: DoesNotFitError,
    read: Callable[[], ModuleOp],
    options: BuildOptions,
    longest: float,
    limit: float = SECONDS,
) -> DoesNotFitError:
    """
    `error` with the first change that fits ahead of its other remedies, and with what was tried in
    vain; `read` makes the network anew, which took `longest` seconds to compile.
    """
    until = time.monotonic() + limit
    failed: list[str] = []
    left = list(trials(options.resolved(read())))
    for trial in progress(left, "looking for options that fit"):
        begun = time.monotonic()
        if begun + longest > until:
            print(f"ceras-compile: note: no time to try {trial.change}", file=sys.stderr)
            break
        try:
            # Notes are of a compile that nobody asked for.
            with redirect_stderr(StringIO()):
                made = build(read(), trial.options)
        except DoesNotFitError as found:
            failed.append(f"{trial.change}: {found.sizes}")
        except InputError as found:
            failed.append(f"{trial.change}: {str(found).splitlines()[0]}")
        else:
            sizes = made.emission.notes[0] if made.emission.notes else "fits"
            more = f" ({trial.advice})" if trial.advice else ""
            return _with(error, [f"{trial.change}: {sizes}{more}"], failed)
        longest = max(longest, time.monotonic() - begun)
    return _with(error, [], failed)


def _with(error: DoesNotFitError, ways: Sequence[str], failed: Sequence[str]) -> DoesNotFitError:
    for text in failed:
        print(f"ceras-compile: note: tried and too large: {text}", file=sys.stderr)
    return DoesNotFitError(error.sizes, error.largest, [*ways, *error.ways], error.file)
