"""
Print the findings of cppcheck's MISRA C:2012 checker in generated C by rule, with reasons.

    python test/misra.py [NAME]    digits in int8 by default, or a network of proofs/abstract.py

`BUILDS` are the texts that the compiler prints for microcontrollers and for hosts; both are checked
as C99 without vectors. `DEVIATIONS` has the violated rules, each with a reason and the number of
lines in the digits network. The text of the rules is not free. The exit status is 1 if a finding
violates another rule, or if digits has more findings than the table; 2 if the network is unknown.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent / "lit"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from c_harness import place
from firmware import write_files
from rich.console import Console
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions

CPPCHECK = "cppcheck"
FINDING = re.compile(r"^(\S+?):(\d+): misra-c2012-(\d+\.\d+)$", re.MULTILINE)
BUILDS = {"microcontroller": COptions(vectors=False), "host": COptions()}
"""Microcontrollers without DSP extension, and hosts with kernels for vectors in addition."""
CHECKED = "digits in int8"
"""The network for which `DEVIATIONS` has the numbers of lines."""


@dataclass(frozen=True)
class Deviation:
    """A violated rule: the lines of digits in each build, and the reason."""

    microcontroller: int
    host: int
    reason: str

    def lines(self, build: str) -> int:
        return {"microcontroller": self.microcontroller, "host": self.host}[build]


DEVIATIONS = {
    "2.2": Deviation(
        6,
        6,
        "an offset of rows that is 0 in this build, and 128 on processors with "
        "products of unsigned bytes",
    ),
    "2.4": Deviation(
        1, 1, "an enumeration names the results, which are returned as int for C and C++"
    ),
    "2.5": Deviation(
        22,
        145,
        "model.h has shapes and a check of buffers for the caller; the other macros "
        "are in groups for vectors, which the preprocessor excludes and the checker counts",
    ),
    "4.1": Deviation(
        25,
        51,
        "constants are strings with octal escapes of at most three digits, which no "
        "digit follows; a list of numbers needs a hundred times more time to compile",
    ),
    "8.7": Deviation(
        1, 1, "model_run_in is part of the interface, for callers with their own memory"
    ),
    "8.14": Deviation(
        9,
        9,
        "restrict is required for vectors, and holds by the memory plan, which "
        "check_blocks.py verifies",
    ),
    "10.1": Deviation(
        6, 9, "right shifts of negative numbers are arithmetic, which model.h asserts"
    ),
    "10.3": Deviation(
        4,
        14,
        "a comparison is stored as int; the checker also reports sums of pointers and integers",
    ),
    "10.4": Deviation(1, 2, "as 2.2: the offset is a literal that fits both types"),
    "10.5": Deviation(2, 2, "a comparison becomes a mask without a branch"),
    "10.7": Deviation(0, 0, "products of sizes are below 2^31 by the limit of tensors"),
    "10.8": Deviation(
        0, 3, "sizes that are products of int32_t are below 2^31 by the limit of tensors"
    ),
    "11.5": Deviation(
        20,
        24,
        "values of all types share the arena, which is a pointer to bytes; offsets "
        "are multiples of the alignment of elements",
    ),
    "11.6": Deviation(1, 1, "the alignment of the arena of the caller is checked"),
    "12.1": Deviation(
        0,
        5,
        "the checker does not see parentheses of operands that it has folded; text of "
        "kernels for vectors",
    ),
    "12.3": Deviation(0, 0, "vectors advance together in the text of kernels for vectors"),
    "13.3": Deviation(0, 0, "a candidate advances with the write"),
    "14.2": Deviation(0, 0, "the loop continues where an inner loop stopped"),
    "14.4": Deviation(0, 0, "an int that a comparison has set is a condition"),
    "15.5": Deviation(1, 1, "a check of arguments returns at the start of a function"),
    "15.6": Deviation(0, 0, "loops of a single statement in functions for other families"),
    "17.7": Deviation(0, 0, "the result of memcpy or memset, which is their first argument"),
    "17.8": Deviation(0, 7, "a pointer parameter advances along rows"),
    "18.4": Deviation(1, 19, "pointers advance along rows; red zones and Frama-C check the ranges"),
    "19.2": Deviation(
        29,
        29,
        "constants are stored as strings of bytes and read as elements; the arena "
        "holds values of all types; exp_f32 converts a float to bits",
    ),
    "20.1": Deviation(
        1, 9, "intrinsics and OpenMP are included next to their kernels, if the compiler has them"
    ),
    "20.4": Deviation(1, 1, "C++ has another name for restrict"),
    "20.5": Deviation(0, 0, "a macro of a kernel is undefined after the kernel"),
    "20.7": Deviation(
        1, 6, "parameters are names of types or variables, which have no parentheses"
    ),
    "20.10": Deviation(4, 8, "the text of a condition is the message of a static assertion"),
    "21.1": Deviation(1, 1, "as 20.4"),
    "21.15": Deviation(2, 2, "memcpy copies the bits of a float"),
}
"""The reason for each violated rule."""

TITLE = "Appendix A Summary of guidelines"
RULES = [f"{chapter}.{rule}" for chapter in range(1, 23) for rule in range(1, 23)]


def _addon(folder: Path) -> Path:
    """
    Write the configuration of the checker to a folder, and return its path. Each rule has another
    message, because cppcheck prints a message a single time per line.
    """
    texts = folder / "rules.txt"
    lines = [f"Rule {rule} Required\nThe number of the rule is {rule}" for rule in RULES]
    texts.write_text("\n".join([TITLE, *lines, ""]), encoding="ascii")
    path = folder / "misra.json"
    path.write_text(json.dumps({"script": "misra.py", "args": [f"--rule-texts={texts}"]}))
    return path


def check(folder: Path) -> Counter[str]:
    """Return the number of lines of the C files of a folder that violate each rule."""
    command = [
        CPPCHECK, f"--addon={_addon(folder)}", "--std=c99", "--quiet",
        "-D__STDC_VERSION__=199901L", "--template={file}:{line}: {id}", "-I.",
        "model.c", "model_weights.c",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Counter(rule for _, _, rule in set(FINDING.findall(done.stderr)))


def findings(module: ModuleOp, options: COptions) -> Counter[str]:
    """Return the number of lines of the C code of a network that violate each rule."""
    with tempfile.TemporaryDirectory(prefix="ceras-misra-") as name:
        write_files(emit(place(module), options), Path(name))
        return check(Path(name))


def excess(found: Mapping[str, Counter[str]], *, are_counted: bool) -> list[str]:
    """
    List the rules that a build violates without a reason or, if lines are counted, in more lines
    than the table has.
    """
    problems: list[str] = []
    for build, counts in found.items():
        for rule, count in counts.items():
            known = DEVIATIONS.get(rule)
            if known is None:
                problems.append(f"{build}: rule {rule}: {count} findings without a reason")
            elif are_counted and count > known.lines(build):
                problems.append(
                    f"{build}: rule {rule}: {count} findings, {known.lines(build)} known"
                )
    return problems


def main(names: list[str]) -> int:
    from proofs.abstract import NETWORKS

    name = names[0] if names else CHECKED
    if name not in NETWORKS:
        print(f"no network is named {name}; there are {', '.join(NETWORKS)}", file=sys.stderr)
        return 2
    found = {build: findings(NETWORKS[name](), options) for build, options in BUILDS.items()}
    table = Table("rule", *BUILDS, "reason")
    for rule, _ in sum(found.values(), Counter[str]()).most_common():
        reason = DEVIATIONS[rule].reason if rule in DEVIATIONS else "NONE"
        table.add_row(rule, *(str(counts[rule]) for counts in found.values()), reason)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    problems = excess(found, are_counted=name == CHECKED)
    for build, counts in found.items():
        print(f"{name}, {build}: {counts.total()} findings of {len(counts)} rules")
    print("\n".join([*problems, f"{len(problems)} deviations from the table"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
