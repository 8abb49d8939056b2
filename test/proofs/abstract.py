"""
Prove by abstract interpretation that generated C has no access out of range and no overflow.

    python test/proofs/abstract.py [NAME...]    all networks, or names that contain one of these

Frama-C (plug-in Eva) analyses the portable loops of each network for all inputs. Each value, array
of the workspace and constant is a separate C object of exact size, so an access past the end is an
alarm even if the arena has more bytes there. No alarm is a proof. An alarm is a property that the
analysis cannot show; `ACCEPTED` has the reasons for known alarms, which are no access and no
overflow. The exit status is 1 if a network has other alarms than these, or 2 if no name matches.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lit"))

import onnx
from c_harness import place
from firmware import write_files
from proofs.kernel_networks import KERNELS
from red_zones import apart, emit_apart
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.model import tensor_c_type
from ceras_ir.backends.c.names import identifiers
from ceras_ir.backends.c.target import CTarget
from ceras_ir.frontends.onnx import import_model
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, Quantize, all_stages, run_stages

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"
FRAMA_C = "frama-c"
LIMIT_SECONDS = 3600
ANALYSIS = (
    *("-eva", "-c11", "-machdep", "gcc_x86_64", "-eva-slevel", "0"),
    *("-warn-special-float", "none"),
)
"""Infinities and NaN are values."""

ACCEPTED: dict[str, tuple[Mapping[str, int], str]] = {
    "integer softmax": (
        {"division": 1},
        "the sum is above 0, because it has the entry of the maximum: a relation, which intervals "
        "do not have",
    ),
    "integer normalization": (
        {"division": 1},
        "the root is above 0, because the shift is the logarithm of the power: a relation",
    ),
}
"""The alarms of networks by kind, and why the analysis cannot show the properties."""

NOT_SHOWN = (
    *(f"{name}: {reason}" for name, (_, reason) in ACCEPTED.items()),
    "an access to another row of the same value or array is in range",
    "the elements of a workspace are written before they are read: the arrays are static here",
    "values that share bytes of the arena are not live together: `check_blocks.py` verifies it",
    "pointers with `restrict` do not overlap",
    "loops end, and the stack is large enough",
    "results of floats are finite: infinities and NaN are values",
    "kernels with vectors or assembler, and types of other sizes than on x86-64, are not analysed",
)
"""The properties that the analysis does not show."""

WORDS = (
    ("out of bounds read", "read"),
    ("out of bounds write", "write"),
    ("out of bounds index", "index"),
    ("signed overflow", "overflow"),
    ("invalid RHS operand for shift", "shift"),
    ("invalid LHS operand for left shift", "shift"),
    ("division by zero", "division"),
    ("overflow in conversion", "conversion"),
    ("uninitialized", "uninitialized"),
    ("precondition", "precondition"),
)
"""The kinds of alarms by their text in the output of Eva."""


@dataclass(frozen=True)
class Outcome:
    """The alarms of a network by kind."""

    alarms: Counter[str]
    statements: str
    """The analysed statements, and all statements of the analysed functions."""
    seconds: float


def digits(quantize: Quantize) -> ModuleOp:
    """Return the digits network before the memory plan of target c, float or quantized to int8."""
    module = import_model(onnx.ModelProto.FromString(DIGITS.read_bytes()))
    options = BuildOptions(CTarget(), quantize=quantize)
    run_stages(load_context(), module, all_stages(options.resolved(module)))
    return module


NETWORKS = {
    **KERNELS,
    "digits in int8": lambda: digits("int8"),
    "digits in float": lambda: digits("none"),
}

_VALUE = re.compile(r"MODEL_AT\(([\w ]+), (\d+)\)")
_SCRATCH = re.compile(
    r"(\w[\w ]*) \*(\w+) = \(\1 \*\)\(void \*\)(?:workspace|&workspace\[\d+\]);\n"
    r" *USABLE\(\2, (\d+)\);"
)
_BASE = re.compile(r"USABLE\(\(\(unsigned char \*\)arena\) \+ (\d+), (\d+)\);")


def separate(text: str) -> str:
    """
    Return the `model.c` of `emit_apart` with a static array for each value of `model_run_in` and
    for each array of a workspace. Bodies of loops keep their values in a single array.
    """
    ranges = [(int(start), int(size)) for start, size in _BASE.findall(text)]
    # Values in place of a larger value are parts of its array.
    roots: list[tuple[int, int]] = []
    for start, size in sorted(ranges, key=lambda r: (r[0], -r[1])):
        if not roots or start >= sum(roots[-1]):
            roots.append((start, size))
    arrays = "".join(
        f"static union {{ unsigned char bytes[{size}]; int64_t i; }} value_{start};\n"
        for start, size in roots
    )

    def pointer(found: re.Match[str]) -> str:
        at = int(found[2])
        root = [start for start, size in roots if start <= at < start + size]
        if not root:
            return f"(({found[1]} *)0)"  # The arrays of a workspace are separate.
        return f"(({found[1]} *)(void *)(value_{root[0]}.bytes + {at - root[0]}))"

    head, start, tail = text.partition("\nint model_run_in(")
    tail = _VALUE.sub(pointer, tail)
    text = head + "\n" + arrays + start + tail
    text = text.replace("#include <sanitizer/asan_interface.h>\n", "")
    text = re.sub(r"^  check_gap\(.*\);\n", "", text, flags=re.MULTILINE)
    text = re.sub(
        r"#define (RED_ZONE|USABLE)\(p, bytes\).*", r"#define \1(p, bytes) ((void)0)", text
    )
    return _SCRATCH.sub(r"static \1 own_\2[\3 / sizeof(\1)]; \1 *\2 = own_\2;", text)


def entry(module: ModuleOp) -> str:
    """Return a C program that runs the network on any inputs."""
    main = main_function(module)
    inputs, outputs = network_inputs(main), network_outputs(main)
    names = identifiers([t.name for t in (*inputs, *outputs)])
    lines = ['#include "model.h"']
    for tensor, name in zip((*inputs, *outputs), names, strict=True):
        lines.append(f"static {tensor_c_type(tensor)} {name}_data[MODEL_{name.upper()}_SIZE];")
    lines += [f"volatile {tensor_c_type(t)} any_{i};" for i, t in enumerate(inputs)]
    lines += ["int main(void)", "{"]
    for i, name in enumerate(names[: len(inputs)]):
        size = f"MODEL_{name.upper()}_SIZE"
        lines.append(f"  for (int i = 0; i < {size}; ++i) {name}_data[i] = any_{i};")
    lines += [f"  return model_run({', '.join(f'{name}_data' for name in names)});", "}", ""]
    return "\n".join(lines)


PREPROCESSOR = "-std=c99 -U__SSE__ -U__SSE2__"
"""Select the portable loops, and a square root without an instruction of the processor."""
SMALL, LARGE = (300, 40), (300, 300)
"""
The steps to which loops of kernels and of layers of digits are unrolled, so that bounds of sums and
offsets are exact: if the number of steps is known, and if it is not. With fewer steps for digits,
the analysis loses the bounds of dot products, and has 39 alarms of overflow.
"""


def prepare(module: ModuleOp, folder: Path) -> None:
    """Write the C files of a network, which is not changed, and a program that runs it."""
    with apart():
        module = place(module.clone())
        write_files(emit_apart(module), folder)
    model = folder / "model.c"
    model.write_text(separate(model.read_text(encoding="ascii")), encoding="ascii")
    (folder / "entry.c").write_text(entry(module), encoding="ascii")


_CALL = re.compile(r"^  (layer_\d+_\w+)\(.*\);\n", re.MULTILINE)
_ARRAY = re.compile(r"^static union { unsigned char bytes\[(\d+)\]; .* (value_\d+);$", re.MULTILINE)


def functions_of(text: str) -> list[str]:
    """List the functions of layers that `model_run_in` of a `model.c` of `separate` calls."""
    return list(dict.fromkeys(_CALL.findall(text.partition("\nint model_run_in(")[2])))


def single(text: str, function: str) -> str:
    """
    Return a `model.c` of `separate` in which `model_run_in` calls only the function of a layer, and
    all values have any bytes before.
    """
    head, start, tail = text.partition("\nint model_run_in(")
    filled = "".join(
        f"  for (int i = 0; i < {size}; ++i) {name}.bytes[i] = any_byte;\n"
        for size, name in _ARRAY.findall(head)
    )
    tail = _CALL.sub(lambda call: call[0] if call[1] == function else "", tail)
    return f"{head}\nvolatile unsigned char any_byte;{start}" + tail.replace(
        "{\n", "{\n" + filled, 1
    )


_CHANNELS = re.compile(r"^( *)(for \(int32_t o = .*; \+\+o\) \{)$", re.MULTILINE)


def rolled(kernels: str) -> str:
    """
    Return `model_kernels.h` with loops over output channels that are not unrolled. In the kernels
    of digits their bodies compute each offset from the channel, so that intervals are exact, and
    the analysis of a convolution takes a twentieth of the time.
    """
    return _CHANNELS.sub(r"\1//@ loop unroll 0;\n\1\2", kernels)


def analyse(module: ModuleOp, unrolled: tuple[int, int] = SMALL) -> Outcome:
    """Analyse the C of a network, which is not changed."""
    with tempfile.TemporaryDirectory(prefix="ceras-abstract-") as name:
        prepare(module, Path(name))
        return _run(Path(name), unrolled)


def analyse_layers(module: ModuleOp, only: str = "") -> Iterator[tuple[str, Outcome]]:
    """
    Analyse each function of a layer, or those with a name that contains `only`, for all stored
    numbers of all values, which the layers before may not reach. A process for each processor.
    """
    with tempfile.TemporaryDirectory(prefix="ceras-abstract-") as name:
        folder = Path(name)
        prepare(module, folder)
        kernels = folder / "model_kernels.h"
        kernels.write_text(rolled(kernels.read_text(encoding="ascii")), encoding="ascii")
        text = (folder / "model.c").read_text(encoding="ascii")
        functions = [f for f in functions_of(text) if only in f]
        files = sorted(folder.glob("*.[ch]"))

        def analysed(function: str) -> Outcome:
            own = folder / function
            own.mkdir()
            for path in files:
                shutil.copy(path, own)
            (own / "model.c").write_text(single(text, function), encoding="ascii")
            return _run(own, LARGE)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            outcomes = pool.map(analysed, functions)
            yield from zip(functions, outcomes, strict=True)


def _run(folder: Path, unrolled: tuple[int, int]) -> Outcome:
    start = time.monotonic()
    command = [
        FRAMA_C, *ANALYSIS, "-eva-auto-loop-unroll", str(unrolled[0]),
        "-eva-min-loop-unroll", str(unrolled[1]),
        f"-cpp-extra-args={PREPROCESSOR} -I{folder}",
        "-eva-msg-key=-initial-state,-final-states",
        *(str(folder / name) for name in ("model.c", "model_weights.c", "entry.c")),
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
    )
    said = done.stdout
    assert done.returncode == 0, said[-2000:]
    covered = re.search(r"In these functions, (\d+) statements reached \(out of (\d+)\)", said)
    assert covered is not None, said[-2000:]
    return Outcome(alarms_of(said), f"{covered[1]}/{covered[2]}", time.monotonic() - start)


def alarms_of(said: str) -> Counter[str]:
    """Count the alarms in the output of Eva by kind."""
    found = re.findall(r"^\[eva:alarm\] (\S+?): Warning: *\n?(.*(?:\n  .*)*)", said, re.MULTILINE)
    counts = Counter[str]()
    for _, text in found:
        kind = next((name for key, name in WORDS if key in text), "other")
        counts[kind] += 1
    return counts


def report(name: str, outcome: Outcome) -> tuple[str, bool]:
    """Return a line with the alarms of a network, and whether all of them are accepted."""
    expected, reason = ACCEPTED.get(name, ({}, ""))
    shown = ", ".join(f"{count} {kind}" for kind, count in sorted(outcome.alarms.items()))
    line = f"{name}: {outcome.statements} statements, {outcome.seconds:.0f} s: {shown or 'proven'}"
    is_known = outcome.alarms == Counter(expected)
    return (f"{line} ({reason})" if is_known and reason else line), is_known


def _outcomes(name: str) -> Iterator[tuple[str, Outcome]]:
    """Analyse a network of kernels as a program, and digits layer by layer."""
    if name in KERNELS:
        yield name, analyse(NETWORKS[name]())
    else:
        for function, outcome in analyse_layers(NETWORKS[name]()):
            yield f"{name}, {function}", outcome


def _print_outcomes(name: str) -> Iterator[bool]:
    """Print a line for each analysis of a network; yield whether the alarms are accepted."""
    try:
        for title, outcome in _outcomes(name):
            line, is_known = report(title, outcome)
            print(line if is_known else f"{line}; NEW ALARMS", flush=True)
            yield is_known
    except subprocess.TimeoutExpired:
        print(f"{name}: no result in {LIMIT_SECONDS} s", flush=True)
        yield False


def main(names: list[str]) -> int:
    chosen = [name for name in NETWORKS if not names or any(part in name for part in names)]
    if not chosen:
        print(f"no network is named like {', '.join(names)}", file=sys.stderr)
        return 2
    if shutil.which(FRAMA_C) is None:
        print("skipped: the analysis needs frama-c (Debian: frama-c-base)", file=sys.stderr)
        return 0
    failed = {name for name in chosen if not all(_print_outcomes(name))}
    print(
        f"{len(chosen) - len(failed)} of {len(chosen)} networks have no access out of range and no "
        f"overflow; {len(NOT_SHOWN)} properties are not shown:"
    )
    for text in NOT_SHOWN:
        print(f"- {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
