"""
Print the findings of cppcheck's MISRA C:2012 checker in generated C by rule, with reasons.

    python test/misra.py [NAME]    digits in int8 by default, or a network of proofs/abstract.py

The checked configuration is C99 without vectors, which microcontrollers compile. `DEVIATIONS` has
the rules that generated code violates, each with a reason; the text of the rules is not free. The
exit status is 1 if a finding violates another rule, 2 if the network is unknown.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
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

DEVIATIONS = {
    "2.2": "offsets of 0, shifts by 0 and factors of 1 keep one form of the text for all layers; "
    "compilers remove them",
    "2.3": "the type is a static assertion in C99; C11 and C++ have none",
    "2.4": "an enumeration names the results, which are returned as int for C and C++",
    "2.5": "model.h has sizes and types for the caller, and model_kernels.h has macros for all "
    "compilers; their use depends on the program and the compiler",
    "4.1": "constants are strings with octal escapes of one to three digits, never followed by a "
    "digit; a list of numbers needs a hundred times more time to compile",
    "5.6": "as 2.3: both files of a model assert the sizes of constants, so that a mixed pair does "
    "not compile",
    "7.3": "the suffix ul in sizes of traces",
    "8.7": "model_run_in is part of the interface for callers with their own memory",
    "8.14": "restrict is required for vectors, and holds by the memory plan, which check_blocks.py "
    "verifies",
    "9.3": "zeros after the first element, as C defines",
    "10.1": "shifts of negative numbers are arithmetic, which model.h asserts",
    "10.3": "strings initialize arrays of char; the bytes are those of another type",
    "10.4": "constants that fit both types are compared with unsigned integers",
    "10.5": "a comparison becomes a mask without a branch",
    "10.8": "sizes that are products of int32_t are below 2^31 by the limit of tensors",
    "11.5": "values of all types share the arena, which is a pointer to bytes; offsets are "
    "multiples of the alignment of elements",
    "12.1": "products before sums, comparisons before conditionals: the usual precedence, in "
    "index expressions",
    "12.3": "a loop advances several pointers, or a declaration has several constants",
    "15.5": "checks of arguments return at the start of a function",
    "17.7": "the result of memcpy, memset, or of a count that the layer knows",
    "18.4": "pointers move along rows; the address sanitizer checks the ranges",
    "19.2": "constants are stored as bytes and read as elements; floats are read as bits",
    "20.1": "intrinsics are included next to the kernels that use them, if the compiler has them",
    "20.4": "C++ has another name for restrict",
    "20.7": "parameters are names of variables or types, which have no parentheses",
    "20.8": "macros of vectors are the number of lanes; 0 is false",
    "20.10": "the text of a condition is the message of a static assertion",
}
"""The reason for each violated rule."""


def findings(module: ModuleOp) -> Counter[str]:
    """Return the number of lines of the C code of a network that violate each rule."""
    with tempfile.TemporaryDirectory(prefix="ceras-misra-") as name:
        write_files(emit(place(module), COptions()), Path(name))
        command = [
            CPPCHECK, "--addon=misra", "--std=c99", "--quiet", "-D__STDC_VERSION__=199901L",
            "--template={file}:{line}: {id}", "-I.", "model.c", "model_weights.c",
        ]  # fmt: skip
        done = subprocess.run(command, cwd=name, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return Counter(rule for _, _, rule in set(FINDING.findall(done.stderr)))


def main(names: list[str]) -> int:
    from proofs.abstract import NETWORKS

    name = names[0] if names else "digits in int8"
    if name not in NETWORKS:
        print(f"no network is named {name}; there are {', '.join(NETWORKS)}", file=sys.stderr)
        return 2
    found = findings(NETWORKS[name]())
    table = Table("rule", "lines", "reason")
    for rule, count in found.most_common():
        table.add_row(rule, str(count), DEVIATIONS.get(rule, "NONE"))
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    unknown = [rule for rule in found if rule not in DEVIATIONS]
    print(
        f"{name}: {found.total()} findings of {len(found)} rules, {len(unknown)} without a reason"
    )
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
