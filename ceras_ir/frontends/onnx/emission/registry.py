"""
Which ONNX operators are imported, by whom, and under which rules.

`@operator` names the importer of an operator family, `@rule` a condition on single nodes that
can be checked before any work is done. The docstring of a rule is what the user reads, so it
is a sentence that says what is taken; the function returns what the node has instead and what
would work, or None. Importing the modules of `operators/`, whatever is there, fills the tables.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import onnx

from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.folding import NEVER_FOLDED
from ceras_ir.frontends.onnx.emission.values import Value
from ceras_ir.frontends.onnx.model.node import Node, fix_with_set
from ceras_ir.support.diagnostics import Finding, did_you_mean
from ceras_ir.support.options import docstring

OperatorImporter: TypeAlias = Callable[[Node, Emitter], Value | Sequence[Value]]
"""Emits what a node computes and returns its first result, or all where there are several."""

F = TypeVar("F", bound=OperatorImporter)

MICROSOFT = "com.microsoft::"
"""The domain of ONNX Runtime's own operators."""

NodeRule: TypeAlias = Callable[[Node], str | None]

OPERATORS: dict[str, OperatorImporter] = {}
OPERATOR_RULES: dict[str, list[NodeRule]] = {}

_REMEDIES = {
    "fix the inputs that decide with --set, or end the model before it and do the rest in the "
    "application, since data decide the size or order of its result": "NonZero Unique",
    "end the model before it and do the rest in the application": "MaxRoiPool",
    "export with fixed shapes, or fix the inputs that decide its shape with --set": (
        "ConstantOfShape"
    ),
    "export the model in eval mode, or with the noise as an input": "Bernoulli Multinomial "
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    "keep it out of the model: only tensors of numbers are taken": "SequenceMap Optional "
    "OptionalGetElement OptionalHasElement StringConcat StringNormalizer StringSplit "
    "RegexFullMatch TfIdfVectorizer ImageDecoder",
    "encode text in the application, before the model": "ai.onnx.ml::CategoryMapper "
    "ai.onnx.ml::DictVectorizer",
    "solve the equations in the application": "com.microsoft::Solve com.microsoft::Inverse Inverse",
    "compute the spectrum in the application, before the network": "MelWeightMatrix "
    "BlackmanWindow HammingWindow HannWindow",
}
REMEDIES = {name: remedy for remedy, names in _REMEDIES.items() for name in names.split()}
"""The way out for operators that users are likely to bring."""

WHERE_COMPUTED = f"{fix_with_set(())}, or end the model before this node"
"""The way out for operands that decide the size of a result or the number of steps."""

NOT_OPTIMIZED = "take the model as it was before ONNX Runtime optimized it"
"""The way out for operators that ONNX Runtime has for itself."""

DEFAULT_REMEDY = "export the model without it, or rewrite it with supported operators"

QONNX_DOMAINS = ("qonnx.", "finn", "onnx.brevitas")
"""How the domains of operators of QONNX, FINN and older versions of Brevitas begin."""

QUARK_DOMAINS = ("com.amd.quark", "com.vai.quantize")
"""How the domains of operators of AMD Quark begin; the second is the former name."""

_QCDQ = "export the network from Brevitas with brevitas.export.export_onnx_qcdq"
_FEW_BITS = f"train it with integers of 2 to 8 bits, and {_QCDQ}"
_CONVERTED = (
    f"{_QCDQ}, or convert the file with qonnx-convert MODEL.onnx --output-style=qcdq, so that it "
    "has QuantizeLinear, Clip and DequantizeLinear instead"
)
_QONNX_REMEDIES = {
    "Quant": _CONVERTED,
    "IntQuant": _CONVERTED,
    "BipolarQuant": f"1 bit has no form in QuantizeLinear; {_FEW_BITS}",
    "FloatQuant": f"floats of few bits have no form in QuantizeLinear; {_FEW_BITS}",
    "Trunc": _QCDQ,
}
"""Alternatives to operators of QONNX. qonnx-convert replaces only Quant and IntQuant."""

_BEFORE_FINN = f"take the model as it was before QONNX or FINN changed it: {_QCDQ}"

_QUARK_REMEDY = (
    "quantize activations and weights to 8 bits in AMD Quark, with Int8Spec or UInt8Spec, or with "
    "quant_format=QuantFormat.QDQ, so that the file has ONNX's QuantizeLinear and DequantizeLinear"
)


MIN_OPERATOR_SIMILARITY = 0.75
"""The similarity from which an unknown operator is a misspelled one."""


def operator(*names: str) -> Callable[[F], F]:
    """Register the importer of the operators called `names`."""

    def register(function: F) -> F:
        for name in names:
            assert name not in OPERATORS, name
            OPERATORS[name] = function
        return function

    return register


def rule(*names: str) -> Callable[[NodeRule], NodeRule]:
    """Register a condition on nodes of the operators called `names`."""

    def register(function: NodeRule) -> NodeRule:
        for name in names:
            OPERATOR_RULES.setdefault(name, []).append(function)
        return function

    return register


def first_output_only(*names: str) -> None:
    """Register the rule that no result but the first is used, for operators that have more."""

    def only_first(node: Node) -> str | None:
        """only the first output can be used"""
        if any(node.outputs[1:]):
            extra = next(name for name in node.outputs[1:] if name)
            return f"'{extra}' is another; remove what reads it"
        return None

    rule(*names)(only_first)


def constant_operands(operands: Mapping[str, Sequence[int]], must: str, way_out: str) -> None:
    """
    Register the rule that operands, where they are given, are constants: `must` is what the user
    reads, and `way_out` follows the name of one that is computed, unless inputs that can be fixed
    decide it.
    """

    def are_constant(node: Node) -> str | None:
        for i in operands[node.operator]:
            if node.has_input(i) and not node.is_constant(i):
                decided = node.deciding(i)
                remedy = fix_with_set(decided) if decided else way_out
                return f"'{node.inputs[i]}' is computed; {remedy}"
        return None

    are_constant.__doc__ = must
    rule(*operands)(are_constant)


def refusals(node: Node) -> Sequence[Finding]:
    """Everything that can be known to be unsupported about a node without its operands' shapes."""
    if node.operator not in OPERATORS:
        # An operator of constants needs no importer, if ONNX defines what it computes.
        is_function = onnx.defs.has(node.operator) and node.operator not in NEVER_FOLDED
        decided = node.deciding(*range(len(node.inputs))) if is_function else ()
        remedy = fix_with_set(decided) if decided else _remedy(node.operator)
        known = onnx.defs.has(node.operator) or node.operator in REMEDIES
        near = "" if known else did_you_mean(node.operator, OPERATORS, MIN_OPERATOR_SIMILARITY)
        remedy = f"{near} Otherwise {remedy}" if near else f"; {remedy}"
        return [node.refusal(f"not an operator that is imported{remedy}")]
    found: list[Finding] = []
    for check in OPERATOR_RULES.get(node.operator, ()):
        if (got := check(node)) is not None:
            found.append(node.refusal(f"{docstring(check)}; {got}"))
    return found


def _remedy(operator: str) -> str:
    """Return what a user can do about an operator that has no importer."""
    domain, _, name = operator.rpartition("::")
    if domain.startswith(QONNX_DOMAINS):
        return _QONNX_REMEDIES.get(name, _BEFORE_FINN)
    if domain.startswith(QUARK_DOMAINS):
        return _QUARK_REMEDY
    is_optimized = domain in ("com.microsoft", "com.microsoft.nchwc")
    return REMEDIES.get(operator, NOT_OPTIMIZED if is_optimized else DEFAULT_REMEDY)
