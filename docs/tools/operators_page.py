"""Print docs/supported-operators.md from the importers of operators."""

from collections import defaultdict
from collections.abc import Iterable
from textwrap import fill

from docstrings import markdown
from onnx.defs import onnx_opset_version

from ceras_ir.frontends.onnx.emission.folding import FOLDABLE
from ceras_ir.frontends.onnx.importer import NEWEST_OPSET, OLDEST_OPSET
from ceras_ir.frontends.onnx.supported import (
    function_operators,
    imported_operators,
    refused_operators,
    rules_of,
)
from ceras_ir.targets.registry import find_target

INTRODUCTION = """\
# Supported operators

The page lists the supported ONNX operators, operator sets OLDEST to NEWEST. A model with another
operator, or with a node that violates a rule, is refused with exit status 3. The messages name each
such node, the rule, the given value and the remedy.

Inputs and outputs are floats, integers of 8 to 64 bits, or booleans. Text labels become integers:
[classical-models.md](classical-models.md). `--batch N` or `--shape NAME=1x3x224x224` sets open
dimensions. Local functions are inlined, and sparse tensors become dense. Operators of
`com.microsoft` have their domain as prefix. `Slice`, `Pad` and `Resize` with sizes that data decide
need a maximum: [control-flow.md](control-flow.md#sizes-that-data-decide).

float16, bfloat16 and double are computed in float32. Weights are converted at import, a Cast
between floats is removed, and the compiled functions accept float32. `.npz` files keep the type of
the model (float32 for bfloat16, which numpy lacks), and `manifest.json` names it as `model_dtype`.
ONNX Runtime in float16 rounds after each node, so outputs differ. A value above 65504 inside the
network does not overflow.
"""

REFUSED = """\
## Refused operators

These operators of ONNX OPSET are not supported. A node that an output depends on is refused with
the remedy:
"""

RULES = """\
These operators have rules:
"""

FOLDED = """\
## Folded operators

Nodes with constant operands are computed at import, such as the shape computations of exporters.
The rules above apply to most of them. They do not apply to operators that are not imported, and to
these, because the reference evaluator of ONNX computes them:
"""

BODIES = """\
## Operators imported as functions

ONNX defines these as functions of other operators. A node is imported as the body of the function
for the types of the operands, if the operators of the body are supported:
"""

TARGETS = """\
## Accelerators

Each operator above runs on the CPU in C. A layer that violates a rule of an accelerator runs on
the CPU, and the report names the rule. [nnet-format.md](nnet-format.md#layers-of-the-fpga) has
the rules of target nnet. Its CPU is the engine, which has no
NonMaxSuppression and no ScatterElements with addition: it refuses such a network.
"""


def operators_page() -> str:
    names = defaultdict[str, list[str]](list)
    for name in imported_operators():
        if rules := rules_of(name):
            names["; ".join(map(_line, rules))].append(f"`{name}`")
    items = [_item(f"- {', '.join(group)}: {text}") for text, group in names.items()]
    free = [name for name in imported_operators() if not rules_of(name)]
    versions = {"OLDEST": OLDEST_OPSET, "NEWEST": NEWEST_OPSET}
    introduction = INTRODUCTION.rstrip()
    for name, version in versions.items():
        introduction = introduction.replace(name, str(version))
    parts = [
        introduction,
        f"These operators have no rules:\n\n{_listed(free)}",
        "\n".join([RULES, *items]),
        f"{FOLDED}\n{_listed(sorted(FOLDABLE - {*free}))}",
        f"{BODIES}\n{_listed(function_operators())}",
    ]
    parts += [REFUSED.replace("OPSET", str(onnx_opset_version())), _refused(), TARGETS]
    for name, title in (("vta", "VTA"), ("dataflow", "dataflow")):
        lines = [_item(f"- {_line(rule)}") for rule in find_target(name).device_rules()]
        parts.append(f"### {title}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _listed(names: Iterable[str]) -> str:
    return fill(", ".join(f"`{name}`" for name in sorted(names)), 100)


def _refused() -> str:
    """Return the other operators of ONNX, grouped by the remedy of their diagnostics."""
    groups: dict[str, list[str]] = {}
    for name, remedy in refused_operators().items():
        groups.setdefault(remedy, []).append(f"`{name}`")
    return "\n".join(_item(f"- {', '.join(n)}: {remedy}") for remedy, n in groups.items())


def _item(text: str) -> str:
    return fill(text, 100, subsequent_indent="  ", break_on_hyphens=False)


def _line(text: str) -> str:
    return " ".join(markdown(text).split()).replace("|", "\\|")
