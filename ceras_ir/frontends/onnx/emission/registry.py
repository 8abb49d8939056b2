"""
Register the importers of ONNX operators and the rules of their nodes.

`@operator` registers the importer of an operator family. `@rule` registers a condition on single
nodes that can be checked before any work is done. The docstring of a rule is printed to users, so
it states the condition. The function returns None, or the finding and the remedy. Importing the
modules in `operators/` fills the tables.
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
"""Emits the operations of a node, and returns the first result or all results."""

F = TypeVar("F", bound=OperatorImporter)

MICROSOFT = "com.microsoft::"
"""The domain of the contrib operators of ONNX Runtime."""

NodeRule: TypeAlias = Callable[[Node], str | None]

OPERATORS: dict[str, OperatorImporter] = {}
OPERATOR_RULES: dict[str, list[NodeRule]] = {}

_REMEDIES = {
    "end the model before it and do the rest in the application, since data decide the size or "
    "order of its result": "NonZero Unique",
    "end the model before it and do the rest in the application": "MaxRoiPool",
    "export with fixed shapes": "ConstantOfShape",
    "export the model in eval mode, or with the noise as an input": "Bernoulli Multinomial "
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    "export the network for inference, without gradients and updates of weights": "SGD GeluGrad "
    "com.microsoft::SoftmaxGrad com.microsoft::SoftmaxCrossEntropyLossGrad "
    "com.microsoft::LayerNormalizationGrad",
    "keep it out of the model: only tensors of numbers are taken": "SequenceMap Optional "
    "OptionalGetElement OptionalHasElement StringConcat StringNormalizer StringSplit "
    "RegexFullMatch TfIdfVectorizer ImageDecoder",
    "encode text in the application, before the model": "ai.onnx.ml::CategoryMapper "
    "ai.onnx.ml::DictVectorizer",
    "solve the equations in the application": "com.microsoft::Solve com.microsoft::Inverse Inverse",
    "compute the spectrum in the application, before the network": "MelWeightMatrix "
    "BlackmanWindow HammingWindow HannWindow",
}
OPERATOR_REMEDIES = {name: remedy for remedy, names in _REMEDIES.items() for name in names.split()}
"""The remedies for operators that users are likely to bring."""

COMPUTED_REMEDY = "end the model before this node"
"""The remedy for operands that decide the size of a result or the number of steps, if data do."""

UNFUSED_MODEL = "take the model as it was before ONNX Runtime optimized it"
"""The remedy for operators that only ONNX Runtime defines."""

DEFAULT_REMEDY = "export the model without it, or rewrite it with supported operators"

QONNX_DOMAINS = ("qonnx.", "finn", "onnx.brevitas")
"""Prefixes of domains of QONNX, FINN and older versions of Brevitas."""

QUARK_DOMAINS = ("com.amd.quark", "com.vai.quantize")
"""Prefixes of domains of AMD Quark; the second is the former name."""

_QCDQ = "export the network from Brevitas with brevitas.export.export_onnx_qcdq"
_FEW_BITS = f"train it with integers of 2 to 8 bits, and {_QCDQ}"
_QONNX_REMEDIES = {
    "FloatQuant": f"floats of few bits have no integers; {_FEW_BITS}",
}
"""Remedies for operators of QONNX that are not imported."""

_BEFORE_FINN = f"take the model as it was before QONNX or FINN changed it: {_QCDQ}"

_QUARK_REMEDY = (
    "quantize activations and weights to 8 bits in AMD Quark, with Int8Spec or UInt8Spec, or with "
    "quant_format=QuantFormat.QDQ, so that the file has ONNX's QuantizeLinear and DequantizeLinear"
)


MIN_OPERATOR_SIMILARITY = 0.75
"""The similarity from which an unknown operator is a misspelled one."""


def operator(*names: str) -> Callable[[F], F]:
    def register(function: F) -> F:
        for name in names:
            assert name not in OPERATORS, name
            OPERATORS[name] = function
        return function

    return register


def rule(*names: str) -> Callable[[NodeRule], NodeRule]:
    """
    Register the decorated function as a rule for nodes of the ONNX operators `names`. It returns
    `None`, or text with the finding and the remedy; the docstring of the function is printed as the
    rule.
    """

    def register(function: NodeRule) -> NodeRule:
        for name in names:
            OPERATOR_RULES.setdefault(name, []).append(function)
        return function

    return register


def first_output_only(*names: str) -> None:
    """Register the rule that only the first result of the operators `names` can be used."""

    def only_first(node: Node) -> str | None:
        """only the first output can be used"""
        if any(node.outputs[1:]):
            extra = next(name for name in node.outputs[1:] if name)
            return f"'{extra}' is another; remove its consumers"
        return None

    rule(*names)(only_first)


def constant_operands(operands: Mapping[str, Sequence[int]], must: str, remedy: str) -> None:
    """
    Register the rule that operands are constants; `operands` maps each operator to their indices.
    `must` is the printed text of the rule. `remedy` is printed for a computed operand, unless it
    depends on inputs that `--set` can fix.
    """

    def are_constant(node: Node) -> str | None:
        for i in operands[node.operator]:
            if node.has_input(i) and not node.is_constant(i):
                return node.computed(i, remedy)
        return None

    are_constant.__doc__ = must
    rule(*operands)(are_constant)


def refusals(node: Node) -> Sequence[Finding]:
    """
    Return the reasons to refuse `node` that are known without the shapes of operands: an unknown
    operator, or rules that it violates.
    """
    if node.operator not in OPERATORS:
        # With constant operands, an operator that ONNX defines needs no importer.
        is_function = onnx.defs.has(node.operator) and node.operator not in NEVER_FOLDED
        decided = node.deciding_inputs(*range(len(node.inputs))) if is_function else ()
        remedy = fix_with_set(decided) if decided else _remedy(node.operator)
        known = onnx.defs.has(node.operator) or node.operator in OPERATOR_REMEDIES
        near = "" if known else did_you_mean(node.operator, OPERATORS, MIN_OPERATOR_SIMILARITY)
        remedy = f"{near} Otherwise {remedy}" if near else f"; {remedy}"
        return [node.refusal(f"not an operator that is imported{remedy}")]
    checked = ((check, check(node)) for check in OPERATOR_RULES.get(node.operator, ()))
    return [node.refusal(f"{docstring(check)}; {got}") for check, got in checked if got is not None]


def _remedy(operator: str) -> str:
    domain, _, name = operator.rpartition("::")
    if domain.startswith(QONNX_DOMAINS):
        return _QONNX_REMEDIES.get(name, _BEFORE_FINN)
    if domain.startswith(QUARK_DOMAINS):
        return _QUARK_REMEDY
    is_optimized = domain in ("com.microsoft", "com.microsoft.nchwc")
    return OPERATOR_REMEDIES.get(operator, UNFUSED_MODEL if is_optimized else DEFAULT_REMEDY)
