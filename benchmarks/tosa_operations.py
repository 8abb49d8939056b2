"""
Print each operation of the TOSA specification, imported or with the reason of the refusal.

    python benchmarks/tosa_operations.py [--check docs/upstream-mlir.md]

With `--check`, the exit status is 1 if the page does not contain the printed table.
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from ceras_ir.frontends.tosa import operators
from ceras_ir.frontends.tosa.operation import OPERATIONS, REFUSED

SPECIFICATION = {
    "tensors": "argmax avg_pool2d conv2d conv3d depthwise_conv2d fft2d matmul max_pool2d rfft2d "
    "transpose_conv2d",
    "activations": "clamp erf sigmoid tanh",
    "two operands": "add arithmetic_right_shift bitwise_and bitwise_or bitwise_xor intdiv "
    "logical_and logical_left_shift logical_right_shift logical_or logical_xor maximum minimum mul "
    "pow sub table",
    "one operand": "abs bitwise_not ceil clz cos exp floor log logical_not negate reciprocal rsqrt "
    "sin",
    "selection, comparison": "select equal greater greater_equal",
    "reduction": "reduce_all reduce_any reduce_max reduce_min reduce_product reduce_sum",
    "layout": "concat pad reshape reverse slice tile transpose",
    "indices, image": "gather scatter resize",
    "conversion": "cast rescale",
    "data": "const const_shape identity",
    "custom, control flow, variables": "custom cond_if while_loop variable variable_read "
    "variable_write",
}
"""The operations of TOSA 1.0, and the groups in the specification."""

READER = {"const", "const_shape", "variable"}
"""Operations without an entry in the table of importers."""


def table() -> list[str]:
    """Return the lines of a Markdown table."""
    for each in iter_modules(operators.__path__, f"{operators.__name__}."):
        import_module(each.name)
    lines = ["| group | imported | refused |", "|---|---|---|"]
    for group, names in SPECIFICATION.items():
        known = [n for n in names.split() if (n in OPERATIONS and n != "custom") or n in READER]
        refused = [n for n in names.split() if n not in known]
        reasons = {
            n: "by the name of the operation" if n == "custom" else REFUSED[n] for n in refused
        }
        shown = [f"{n}: {text.partition(';')[0]}" for n, text in reasons.items()]
        lines.append(f"| {group} | {' '.join(known)} | {'; '.join(shown)} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", type=Path, metavar="PAGE", help="compare with a page")
    arguments = parser.parse_args()
    lines = table()
    if arguments.check is None:
        print(*lines, sep="\n")
        return 0
    page = arguments.check.read_text("utf-8")
    if "\n".join(lines) in page:
        return 0
    print(f"{arguments.check}: the table is older than the importer; replace it by:")
    print(*lines, sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
