"""docs/supported-operators.md: ONNX operators and the rules for them, from their importers."""

from docstrings import markdown

from ceras_ir.backends.nnet import rules as nnet_rules
from ceras_ir.backends.vta import rules as vta_rules
from ceras_ir.frontends.onnx.folding import FOLDABLE
from ceras_ir.frontends.onnx.importer import NEWEST_OPSET, OLDEST_OPSET
from ceras_ir.frontends.onnx.registry import OPERATORS, RULES, load_operators

INTRODUCTION = """\
# Supported operators

What is read of ONNX, opsets OLDEST to NEWEST. A model with an operator that is not here, or with a
node that breaks a rule of its operator, is refused as a whole with exit status 3: every such node
is named, with the rule, what the node has instead, and what would work.

Inputs and outputs are float32, integers of 8 to 64 bits or booleans. Open dimensions are bound by
`--batch N` or `--shape NAME=1x3x224x224`. Functions that a model defines itself are inlined, and
operators of `com.microsoft` are named with their domain.
"""

FOLDED = """\
## Folded operators

Nodes whose operands are all constants are evaluated by ONNX's own reference evaluator, whatever
their rules above: what exporters write to compute shapes leaves no trace. Of these operators:
"""

TARGETS = """\
## Accelerators

Every operator above runs on the CPU, in C. What breaks a rule of an accelerator runs there too, and
the report says which rule it was.
"""


def operators_page() -> str:
    load_operators()
    rows = ["| operator | how it is imported | rules |", "|---|---|---|"]
    for name in sorted(OPERATORS):
        rules = "<br>".join(_line(rule.__doc__) for rule in RULES.get(name, ()))
        rows.append(f"| `{name}` | {_line(OPERATORS[name].__doc__)} | {rules} |")
    versions = {"OLDEST": OLDEST_OPSET, "NEWEST": NEWEST_OPSET}
    introduction = INTRODUCTION
    for name, version in versions.items():
        introduction = introduction.replace(name, str(version))
    parts = [introduction, "\n".join(rows), FOLDED + ", ".join(f"`{n}`" for n in sorted(FOLDABLE))]
    parts.append(TARGETS)
    vta = (*vta_rules.RULES, *vta_rules.OTHER_RULES)
    for title, rules in (("nnet (FPGA)", nnet_rules.RULES), ("VTA", vta)):
        lines = [f"- {_line(rule.__doc__)}" for rule in rules]
        parts.append(f"### {title}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _line(docstring: str | None) -> str:
    return " ".join(markdown(docstring).split()).replace("|", "\\|")
