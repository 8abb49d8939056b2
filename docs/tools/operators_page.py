"""docs/supported-operators.md: ONNX operators and the rules for them, from their importers."""

from docstrings import markdown
from onnx import NodeProto
from onnx.defs import get_all_schemas, onnx_opset_version

from ceras_ir.backends.dataflow import rules as dataflow_rules
from ceras_ir.backends.nnet import rules as nnet_rules
from ceras_ir.backends.vta.rules import admission as vta_rules
from ceras_ir.frontends.onnx.emission.folding import FOLDABLE, has_body
from ceras_ir.frontends.onnx.emission.registry import (
    DEFAULT_REMEDY,
    OPERATOR_RULES,
    OPERATORS,
    REMEDIES,
)
from ceras_ir.frontends.onnx.importer import NEWEST_OPSET, OLDEST_OPSET
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators import load_operators

INTRODUCTION = """\
# Supported operators

The operators of ONNX that are imported, opsets OLDEST to NEWEST. A model with an operator that is
not here, or with a node that breaks a rule of its operator, is refused as a whole with exit
status 3: every such node is named, with the rule, what the node has instead, and what would work.

Inputs and outputs are floats, integers of 8 to 64 bits or booleans. Labels that are text are
numbers: [classical-models.md](classical-models.md). Open dimensions are bound by
`--batch N` or `--shape NAME=1x3x224x224`. Local functions are inlined, and sparse tensors become
dense. Operators of `com.microsoft` are named with their domain.

float16, bfloat16 and double are computed in float32. Weights are converted when they are read, a
Cast between floats changes nothing, and the compiled functions take float32. `.npz` files keep the
model's type (bfloat16, which numpy lacks, is float32 there), and `manifest.json` names it as
`model_dtype`. Against ONNX Runtime in float16, which rounds after every node, outputs differ by
less than 0.002 of their largest; a value beyond 65504 inside the network does not overflow.
"""

REFUSED = """\
## Refused operators

These operators of ONNX OPSET are not imported. A node of one that an output needs is refused with
`unsupported OPERATOR: not an operator that is imported;` and what to do about it:
"""

FOLDED = """\
## Folded operators

Nodes whose operands are all constants are computed at import, whatever their operator: what
exporters write to compute shapes leaves no trace. Operators above are computed by the interpreter,
all others, and these whatever their rules, by ONNX's own reference evaluator:
"""

BODIES = """\
## Operators imported as functions

ONNX defines these as functions of other operators. A node is imported as the function's body for
the types of its operands, as far as the operators of the body are imported:
"""

TARGETS = """\
## Accelerators

Every operator above runs on the CPU, in C. What breaks a rule of an accelerator runs there too, and
the report says which rule it was.
The CPU of target nnet is its engine, which has no NonMaxSuppression, and no ScatterElements that
adds: it refuses a network with one of them.
"""


def operators_page() -> str:
    load_operators()
    rows = ["| operator | how it is imported | rules |", "|---|---|---|"]
    for name in sorted(OPERATORS):
        rules = "<br>".join(_line(rule.__doc__) for rule in OPERATOR_RULES.get(name, ()))
        rows.append(f"| `{name}` | {_line(OPERATORS[name].__doc__)} | {rules} |")
    versions = {"OLDEST": OLDEST_OPSET, "NEWEST": NEWEST_OPSET}
    introduction = INTRODUCTION
    for name, version in versions.items():
        introduction = introduction.replace(name, str(version))
    parts = [introduction, "\n".join(rows), FOLDED + ", ".join(f"`{n}`" for n in sorted(FOLDABLE))]
    parts.append(BODIES + ", ".join(f"`{name}`" for name in _functions()))
    parts += [REFUSED.replace("OPSET", str(onnx_opset_version())), _refused(), TARGETS]
    vta = (*vta_rules.RULES, *vta_rules.OTHER_RULES)
    for title, rules in (
        ("nnet (FPGA)", nnet_rules.RULES),
        ("VTA", vta),
        ("dataflow", dataflow_rules.RULES),
    ):
        lines = [f"- {_line(rule.__doc__)}" for rule in rules]
        parts.append(f"### {title}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _functions() -> list[str]:
    """The operators that have a body and no importer."""
    names = {s.name for s in get_all_schemas() if not s.domain} - set(OPERATORS)
    nodes = (Node(NodeProto(op_type=name), NEWEST_OPSET) for name in sorted(names))
    return [node.operator for node in nodes if has_body(node)]


def _refused() -> str:
    """ONNX's other operators, by what their diagnostics advise."""
    schemas = get_all_schemas()
    others = {s.name for s in schemas if not s.domain} - set(OPERATORS) - FOLDABLE
    others = sorted(others - set(_functions()))
    groups: dict[str, list[str]] = {}
    for name in others:
        groups.setdefault(REMEDIES.get(name, DEFAULT_REMEDY), []).append(f"`{name}`")
    return "\n".join(f"- {', '.join(names)}: {remedy}" for remedy, names in groups.items())


def _line(docstring: str | None) -> str:
    return " ".join(markdown(docstring).split()).replace("|", "\\|")
