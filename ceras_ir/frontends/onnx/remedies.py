"""
Propose options that remedy an error.

An error that depends on shapes or values of the inputs is `unsupported`, because the model is valid
for others. The options in the findings are from a single successful import, so they are consistent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

import onnx
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.frontends.onnx.importer import Importer
from ceras_ir.frontends.onnx.model.node import STATE_MAXIMUM, MalformedError, as_unsupported
from ceras_ir.frontends.onnx.model.signature import DYNAMIC_DIMENSION, GRAPH_INPUT
from ceras_ir.frontends.onnx.proposals import (
    Attempt,
    ImportOutcome,
    OptionProposal,
    Options,
    Search,
)
from ceras_ir.frontends.onnx.search_space import OpenDimensions
from ceras_ir.support.diagnostics import (
    MAX_PRINTED_FINDINGS,
    Finding,
    InputError,
    UnsupportedError,
    no_remarks,
)

MAX_SHAPE_ELEMENTS = 64
"""Maximum number of elements of a constant that may be a shape or a list of axes."""


def imported(importer: Importer) -> ModuleOp:
    """
    Return the imported module. If the import fails, search options with which it would succeed, and
    raise the error with these as remedies.
    """
    try:
        return importer.module()
    except InputError as e:
        options = Options(importer.shapes, importer.values)
        error = _explained(e, importer.model, options, importer.batch, partial(_outcome, importer))
        error.file = error.file or importer.name
        raise error from None


def _outcome(importer: Importer, options: Options) -> ImportOutcome:
    other = Importer(
        importer.model,
        batch=importer.batch,
        shapes=options.shapes,
        values=options.values,
        name=importer.name,
        folder=importer.folder,
    )
    error: InputError | None = None
    try:
        with no_remarks():
            other.module(emits_always=True)
    except InputError as e:
        error = e
    return ImportOutcome(error, len(other.emitted))


def _explained(
    error: InputError, model: onnx.ModelProto, options: Options, batch: int, attempt: Attempt
) -> InputError:
    is_refused = isinstance(error, UnsupportedError)
    is_misuse = not is_refused and any(f.operator == GRAPH_INPUT for f in error.findings)
    if isinstance(error, MalformedError) or not error.findings or is_misuse:
        return error
    dimensions = OpenDimensions(model.graph, options.shapes, batch, options.values)
    is_open = any(map(_is_open, error.findings))
    is_undecided = any(finding.inputs for finding in error.findings)
    depends = bool(dimensions.start or options.values) and not is_refused
    if not is_open and not is_undecided and not depends:
        return error
    # A contradictory branch may not be executed.
    if not is_refused and not is_undecided and _is_contradictory(model):
        return error
    search = Search(model.graph, options, dimensions, attempt)
    found = search.run()
    is_shown_to_depend = search.progressed or not dimensions.are_batches
    if found is None and not is_refused and not is_shown_to_depend:
        return error
    findings = [as_unsupported(finding) for finding in error.findings]
    if is_open and found is not None and found.options.values == options.values:
        findings += () if found.outcome.error is None else found.outcome.error.findings
    findings = [_with_shape(finding, found) for finding in findings]
    findings, values = _with_maxima(findings, _values(options, found), found)
    at_inputs = [*values, *_shapes(findings, is_refused, dimensions, found)]
    # Only the first findings are printed.
    is_long = len(findings) + len(at_inputs) > MAX_PRINTED_FINDINGS
    return UnsupportedError([*at_inputs, *findings] if is_long else [*findings, *at_inputs])


RANGES = "a range FIRST..LAST:STEP as this extent compiles several, if the target supports that"


def _is_open(finding: Finding) -> bool:
    return finding.operator == GRAPH_INPUT and finding.message.startswith(DYNAMIC_DIMENSION)


def _with_shape(finding: Finding, found: OptionProposal | None) -> Finding:
    if not _is_open(finding):
        return finding
    example = _shape_option(finding.node, found)
    remedy = f"fix it, for example with {example}" if example else "fix it with --shape"
    return replace(finding, message=f"{finding.message}; {remedy}; {RANGES}")


def _shape_option(name: str, found: OptionProposal | None) -> str:
    shape = None if found is None else found.options.shapes.get(name)
    return "" if shape is None else f"--shape {name}={'x'.join(map(str, shape))}"


def _values(options: Options, found: OptionProposal | None) -> Sequence[Finding]:
    if found is None or not found.is_complete:
        return []
    return [
        Finding(name, GRAPH_INPUT, _with_value(name, numbers, options.values.get(name)))
        for name, numbers in found.options.values.items()
        if numbers != options.values.get(name)
    ]


def _with_maxima(
    findings: Sequence[Finding], values: Sequence[Finding], found: OptionProposal | None
) -> tuple[Sequence[Finding], Sequence[Finding]]:
    """
    Return `findings`, and those of `values` that are necessary: if a maximum for each finding is
    enough, the proposed values of inputs are examples at the end of its message.
    """
    named = {name for finding in findings for name in finding.inputs}
    if found is None or not all(STATE_MAXIMUM in finding.message for finding in findings):
        return findings, values
    if not values or not named.issuperset(value.node for value in values):
        return findings, values
    proposed = {value.node: found.options.values[value.node] for value in values}
    return [_with_examples(finding, proposed) for finding in findings], ()


def _with_examples(finding: Finding, proposed: Mapping[str, Sequence[float]]) -> Finding:
    texts = (f"--set {n}={_listed(proposed[n])}" for n in finding.inputs if n in proposed)
    message, examples = finding.message.removesuffix(" --set"), " ".join(texts)
    is_open = message != finding.message and bool(examples)
    return replace(finding, message=f"{message} {examples}") if is_open else finding


def _with_value(name: str, numbers: Sequence[float], given: Sequence[float] | None) -> str:
    example = f"for example {'with ' if given is None else ''}--set {name}={_listed(numbers)}"
    if given is None:
        return (
            "unsupported as an input, because a branch or a size depends on the value; fix it, "
            f"{example}"
        )
    return f"unsupported value: --set {name}={_listed(given)} does not fit; give another, {example}"


def _listed(numbers: Sequence[float]) -> str:
    return ",".join(map(_exactly, numbers))


def _exactly(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(float(number))


def _shapes(
    findings: Sequence[Finding],
    is_refused: bool,
    dimensions: OpenDimensions,
    found: OptionProposal | None,
) -> Sequence[Finding]:
    """
    Return findings for the inputs with open dimensions: the extents that were assumed do not fit,
    and which shape would. `found` are the options with which the import succeeds, if any.
    """
    explained = {finding.node for finding in findings if _is_open(finding)}
    remedies: list[Finding] = []
    for name, shape in dimensions.shapes(dimensions.start).items():
        at_hand = f"unsupported shape: the open dimensions are taken as {'x'.join(map(str, shape))}"
        if name in explained or (found is None and is_refused):
            continue
        if found is None:
            message = (
                f"{at_hand}, which does not fit; neither do the other shapes that were tried. Give "
                "the shape that the model expects with --shape"
            )
            remedies.append(Finding(name, GRAPH_INPUT, message))
        elif found.options.shapes.get(name, shape) != shape:
            message = f"{at_hand}; give another, for example {_shape_option(name, found)}"
            remedies.append(Finding(name, GRAPH_INPUT, message))
    return remedies


def _is_contradictory(model: onnx.ModelProto) -> bool:
    """
    Return whether ONNX's shape inference finds a contradiction in the model, whatever the extents
    of open dimensions.
    """
    from onnx import shape_inference

    # Without declared shapes of results, which may be wrong, and without large weights.
    bare = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    bare.graph.name = "bare"
    bare.graph.node.extend(model.graph.node)
    bare.graph.input.extend(model.graph.input)
    declared = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if prod(tensor.dims) <= MAX_SHAPE_ELEMENTS and not tensor.external_data:
            bare.graph.initializer.append(tensor)
        elif tensor.name not in declared:
            value = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            bare.graph.input.append(value)
    for value in model.graph.output:
        kind = value.type.tensor_type.elem_type
        bare.graph.output.append(onnx.helper.make_tensor_value_info(value.name, kind, None))
    try:
        shape_inference.infer_shapes(bare, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, ValueError):
        return True
    return False
