"""
Prove by abstract interpretation that generated C has no access out of range and no overflow.

    python test/proofs/abstract.py [NAME...]    all networks, or names that contain one of these

Frama-C (plug-in Eva) analyses the portable loops of each network for all inputs. Each value, array
of the workspace and constant is a separate C object of exact size, so an access past the end is an
alarm even if the arena has more bytes there. No alarm is a proof. An alarm is a property that the
analysis cannot show; `ACCEPTED` has the reasons for known alarms. The exit status is 1 if a network
has other alarms than these, or 2 if no name matches.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
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

RELATION = "the maximum of a row is not below an element: a relation, which intervals do not have"
ROOT = "exponent of a root: the sign bit of a float above 0 is 0, which the analysis does not use"
LOOPS = "loops of more than 20 steps are not unrolled, which loses bounds of sums and offsets"
ACCEPTED: dict[str, tuple[Mapping[str, int], str]] = {
    "integer softmax": (
        {"read": 2, "division": 1},
        f"index of the table, and sum above 0: {RELATION}",
    ),
    "integer normalization": ({"division": 1}, "the root of a power above 0 is above 0"),
    "elementwise": ({"overflow": 1}, ROOT),
    "softmax and normalization": ({"overflow": 1}, ROOT),
    "digits in int8": ({"overflow": 39, "read": 2}, LOOPS),
    "digits in float": ({"overflow": 4, "read": 1, "write": 3}, LOOPS),
}
"""The alarms of networks by kind, and why the analysis cannot show the properties."""

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
    r"(\w[\w ]*) \*(\w+) = \(\1 \*\)\(void \*\)\(workspace \+ \d+\);\n *USABLE\(\2, (\d+)\);"
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
            return f"(({found[1]} *)0)"  # A workspace, whose arrays are separate.
        return f"(({found[1]} *)(void *)(value_{root[0]}.bytes + {at - root[0]}))"

    head, start, tail = text.partition("\nint model_run_in(")
    tail = _VALUE.sub(pointer, tail)
    text = head + "\n" + arrays + start + tail
    text = text.replace("#include <sanitizer/asan_interface.h>\n", "")
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
SMALL, LARGE = (300, 40), (20, 0)
"""
The steps to which loops of small and of large networks are unrolled, so that bounds of sums are
exact: if the number of steps is known, and if it is not.
"""


def analyse(module: ModuleOp, unrolled: tuple[int, int] = SMALL) -> Outcome:
    """Analyse the C of a network, which is not changed."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ceras-abstract-") as name:
        folder = Path(name)
        with apart():
            module = place(module.clone())
            write_files(emit_apart(module), folder)
        model = folder / "model.c"
        model.write_text(separate(model.read_text(encoding="ascii")), encoding="ascii")
        (folder / "entry.c").write_text(entry(module), encoding="ascii")
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
        assert done.returncode == 0, done.stdout[-2000:]
        said = done.stdout
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


def main(names: list[str]) -> int:
    chosen = [name for name in NETWORKS if not names or any(part in name for part in names)]
    if not chosen:
        print(f"no network is named like {', '.join(names)}", file=sys.stderr)
        return 2
    if shutil.which(FRAMA_C) is None:
        print("skipped: the analysis needs frama-c (Debian: frama-c-base)", file=sys.stderr)
        return 0
    unknown = 0
    for name in chosen:
        try:
            outcome = analyse(NETWORKS[name](), SMALL if name in KERNELS else LARGE)
        except subprocess.TimeoutExpired:
            print(f"{name}: no result in {LIMIT_SECONDS} s", flush=True)
            unknown += 1
            continue
        line, is_known = report(name, outcome)
        print(line if is_known else f"{line}; NEW ALARMS", flush=True)
        unknown += not is_known
    proven = len([name for name in chosen if name not in ACCEPTED]) - unknown
    print(f"{proven} of {len(chosen)} networks proven, {unknown} with new alarms")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
