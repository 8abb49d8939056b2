"""
Set the precision of layers, and choose the forms of functions.

1. `set-precision` sets layers of a calibrated network to 16 bits or to float. The file also inserts
   8-bit copies of 16-bit values, so that products with constant weights remain products of bytes.
2. `set-functions` chooses the forms of functions in a network that will be quantized, and
   `fit-functions` stores the operand of each function at the resolution of its form.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain, product
from math import inf
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.function import (
    data_operands,
    has_quantized_form,
    input_names,
    is_join,
    is_quantized,
    keeps_scale,
    module_of,
    quantized_operations,
)
from ceras_ir.network.storage import (
    NARROW,
    STATISTICS,
    WIDE,
    attributes_of,
    exponent,
    is_kept_in_float,
    keep_in_float,
    keep_layer_in_float,
    set_attribute,
    widen,
    width,
)
from ceras_ir.support.diagnostics import (
    UsageError,
    did_you_mean,
    node_name,
    node_names,
    remark,
    shortened,
)
from ceras_ir.support.option_uses import record_use
from ceras_ir.support.options import with_options_of
from ceras_ir.targets.registry import configured
from ceras_ir.transforms.graph.fuse import SplitActivationRule
from ceras_ir.transforms.graph.fuse_functions import replace_swish
from ceras_ir.transforms.graph.row_rules import NormalizationRule
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, NetworkPass, RulePass
from ceras_ir.transforms.quantization.analysis.function_forms import (
    Form,
    fit_argument,
    form_of,
    is_table,
    reads_sum,
    set_form,
)
from ceras_ir.transforms.quantization.analysis.qdq import COMES_QUANTIZED
from ceras_ir.transforms.quantization.analysis.scale_classes import is_constant
from ceras_ir.transforms.quantization.channel_slopes import MergeSlopesRule, PairSlopesRule
from ceras_ir.transforms.quantization_options import (
    ArithmeticOptions,
    CalibrationOptions,
    LayerOptions,
    NarrowOptions,
    RowsOptions,
    SiluOptions,
)

Copies = Mapping[SSAValue, graph.UnaryOp]
"""The copy of each value that has a copy."""


def insert_copies(main: FuncOp, *, of_products: bool) -> Copies:
    """
    Insert an 8-bit copy of each stored value that both products with constant weights and other
    consumers (such as a residual connection) use, and let the products use the copy. The value can
    then get 16 bits, while the products remain products of bytes. Return the copy of each value.

    A copy is a clip without bounds, with the range and scale of the value. `erase_idle_copies`
    removes it again if both have the same width. Results of products are copied only if
    `of_products`: an accelerator with 8-bit results cannot produce 16 bits.
    """
    operations = quantized_operations(main)
    computed = [op.results[0] for op in operations if has_quantized_form(op) or is_join(op)]
    copies: dict[SSAValue, graph.UnaryOp] = {}
    for value in (*main.body.block.args, *computed):
        products = [use for use in value.uses if _is_product(use)]
        is_narrow = width(value) == NARROW and exponent(value) is not None
        if isinstance(value.owner, graph.LinearOperation) and not of_products:
            continue
        if is_narrow and 0 < len(products) < len(list(value.uses)):
            copies[value] = _copied(main, value, products)
    return copies


def erase_idle_copies(copies: Copies) -> None:
    """
    Remove the copies that have the same width as the copied value, because they are not needed.
    """
    for value, copy in copies.items():
        if width(value) == width(copy.result):
            copy.result.replace_all_uses_with(value)
            Rewriter.erase_op(copy)


def _copied(main: FuncOp, value: SSAValue, uses: list[Use]) -> graph.UnaryOp:
    copy = graph.UnaryOp(value, graph.FunctionAttr(graph.Function.CLIP, [-inf, inf]))
    owner = value.owner
    if isinstance(owner, Operation):
        copy.location, place = owner.location, InsertPoint.after(owner)
    else:
        copy.location, place = uses[0].operation.location, InsertPoint.at_start(main.body.block)
    for name in STATISTICS:
        set_attribute(copy.result, name, attributes_of(value).get(name))
    Rewriter.insert_op(copy, place)
    for use in uses:
        use.operation.operands[use.index] = copy.result
    return copy


def _is_product(use: Use) -> bool:
    """
    Return whether a use is the input of a product with constant weights. A use by data movement
    counts if only such products use the result, except data movement in float.
    """
    op = use.operation
    if is_kept_in_float(op):
        return False
    if isinstance(op, graph.LinearOperation):
        return use.index == 0 and isinstance(op.weights.owner, graph.ConstantOp)
    if not keeps_scale(op) or is_join(op):
        return False
    uses = list(op.results[0].uses)
    return bool(uses) and all(map(_is_product, uses))


Named = TypeVar("Named", Operation, SSAValue)


@dataclass(frozen=True)
class SetPrecisionPass(LayerOptions, NetworkPass):
    """
    Set `graph.precision` of the layers that `int16` and `float` name.

    Both options accept node names of the model, with `*`, `?` and `[...]` as in file names. A layer
    in both options is computed in float, and its quantized consumers use 16 bits. The result of a
    data movement operation or a maximum pooling has the width of the operand. The pass changes no
    value.

    Before, with `int16=conv1`:

        %y = graph.unary <relu> %x {graph.range = array<f32: 0.0, 3.0>, graph.exponent = -5 : i64}
            : tensor<1x2xf32> loc("conv1")

    After:

        %y = graph.unary <relu> %x {graph.range = array<f32: 0.0, 3.0>, graph.exponent = -12 : i64,
            graph.precision = "i16"} : tensor<1x2xf32> loc("conv1")
    """

    name = "set-precision"

    def change(self, main: FuncOp) -> None:
        if is_quantized(main):
            if self.int16 or self.float:
                raise UsageError(f"int16 and float: {COMES_QUANTIZED}")
            return
        operations = [
            o
            for o in main.body.block.ops
            if isinstance(o, graph.GraphOperation) and not isinstance(o, graph.ConstantOp)
        ]
        names: dict[Operation, list[str]] = {o: node_names(o) or [node_name(o)] for o in operations}
        for pattern in dict.fromkeys(self.int16):
            if pattern in self.float:
                remark(
                    f"set-precision: warning: int16 and float name '{pattern}': it is computed in "
                    "float, and only its consumers use 16 bits; remove it from one of them"
                )
        for operation in matching(names, self.float, "float"):
            keep_layer_in_float(operation, "the option float names it")
        self._widen(main, names)
        spread(main)

    def _widen(self, main: FuncOp, names: dict[Operation, list[str]]) -> None:
        arguments = dict(zip(main.body.block.args, input_names(main), strict=True))
        known: dict[SSAValue, list[str]] = {o.results[0]: found for o, found in names.items()}
        known |= {argument: [name] for argument, name in arguments.items()}
        chosen = matching(known, self.int16, "int16")
        storable = stored_values(main)
        for pattern in self.int16:
            matched = [v for v in chosen if is_named(known[v], [pattern])]
            if not any(v in storable for v in matched):
                raise UsageError(f"layer '{pattern}' has no quantized form: it remains float")
        for value in chosen:
            # A value of 16 bits already has a scale for 16 bits.
            if value in storable and width(value) != WIDE:
                widen(value)


def stored_values(main: FuncOp) -> set[SSAValue]:
    """
    Return the values of a float network that will be stored as integers: graph inputs, and results
    and operands of operations that will be quantized.
    """
    found: set[SSAValue] = set(main.body.block.args)
    for op in quantized_operations(main):
        found |= {op.results[0], *(v for v in data_operands(op) if not is_constant(v))}
    return found


def is_named(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """
    Return whether any of `names` is equal to any of `patterns`, or matches it as a shell pattern
    with `*`, `?` and `[...]`.
    """
    return any(n == p or fnmatchcase(n, p) for n, p in product(names, patterns))


def matching(names: dict[Named, list[str]], patterns: Iterable[str], option: str) -> list[Named]:
    """
    Return the items with a name that is equal to any of `patterns`, or matches it. `names` has the
    names of each item. Raise a `UsageError` for a pattern of `option` that matches no name.
    """
    found: dict[Named, None] = {}
    for pattern in patterns:
        matched = [item for item, known in names.items() if is_named(known, [pattern])]
        if not matched:
            hint = did_you_mean(pattern, chain(*names.values())) or _some_names(names.values())
            raise UsageError(f"{option}: no layer is named '{pattern}'{hint}")
        found |= dict.fromkeys(matched)
    return list(found)


def _some_names(names: Iterable[list[str]]) -> str:
    known = list(dict.fromkeys(shortened(each[0]) for each in names if each))
    more = ", ... (ceras-opt --fuse shows all)" if len(known) > MAX_NAMED_LAYERS else ""
    return f"; layers are {', '.join(map(repr, known[:MAX_NAMED_LAYERS]))}{more}" if known else ""


MAX_NAMED_LAYERS = 3
"""The number of layers that the message about an unknown name lists."""


def spread(main: FuncOp) -> None:
    """
    Widen the operand or the result of data movement operations to 16 bits if the other has 16 bits,
    because both are stored in the same width.
    """
    movers = [op for op in quantized_operations(main) if keeps_scale(op) and not is_join(op)]
    changed = True
    while changed:
        changed = False
        for op in (*movers, *reversed(movers)):
            source, result = op.operands[0], op.results[0]
            widths = width(source), width(result)
            is_constant = isinstance(source.owner, graph.ConstantOp)
            if WIDE not in widths or min(widths) == WIDE or is_constant:
                continue
            for value in (source, result):
                widen(value)
            changed = True


@dataclass(frozen=True)
class FitFunctionsPass(FloatNetworkPass):
    """
    Store the operand of a function in 16 bits if `graph.form` uses more than int8. The exponent is
    the finest that the form can use: "table16" has 1024 entries, "shifts" uses 15 of 16 bits.

    Needs `graph.range`. Changes no value.

    Before:

        %a = graph.matmul %x, %w {graph.exponent = -5 : i64, graph.range = array<f32: -3.0, 3.0>}
            : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %y = graph.unary <swish> %a {graph.form = "table16"} : tensor<1x2xf32>

    After:

        %a = graph.matmul %x, %w {graph.exponent = -7 : i64, graph.range = array<f32: -3.0, 3.0>,
            graph.precision = "i16"} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %y = graph.unary <swish> %a {graph.form = "table16"} : tensor<1x2xf32>
    """

    name = "fit-functions"

    def change(self, main: FuncOp) -> None:
        for unary in main.body.block.ops:
            if isinstance(unary, graph.UnaryOp):
                fit_argument(unary)


@dataclass(frozen=True)
class RowRule(RowsOptions, FloatNetworkPass):
    """
    Choose whether softmax and normalizations of a network that will be quantized are computed in
    integers or in float. Float operations get `graph.precision = "f32"`.

    The integer forms have operands and results in int8 or int16: `graph.integer_softmax` with a
    table of exponentials, `graph.integer_normalize` with a root. Changes no value.

    Before, with `rows=float`:

        %y = graph.softmax %x {axis = 1 : i64} : tensor<2x4xf32>

    After:

        %y = graph.softmax %x {axis = 1 : i64, graph.precision = "f32",
            graph.float_reason = "the option rows requires float"} : tensor<2x4xf32>
    """

    name = "rows"

    def change(self, main: FuncOp) -> None:
        for inner in main.body.block.ops:
            if isinstance(inner, graph.SoftmaxOp | graph.NormalizeOp):
                record_use("rows")
                if self.rows == "float":
                    keep_in_float(inner, "the option rows requires float")


Offer = Callable[[graph.UnaryOp, graph.LinearOperation], str]

MAX_MEASURED_SAMPLES = 8
"""The maximum number of samples on which HardSwish is compared with SiLU."""


@dataclass(frozen=True)
class SiluRule(ArithmeticOptions, CalibrationOptions, SiluOptions, FloatNetworkPass):
    """
    Choose the form of SiLU (`swish`) in a network that will be quantized, as `graph.form` or
    `graph.precision`. An existing `graph.form` is kept. Runs after `split-activations`.

    `hardswish` is another function. A network may lose accuracy without retraining, so stderr
    prints the noise on some samples of `calibration`.
    """

    name = "silu"

    def change(self, main: FuncOp) -> None:
        if self.silu == "hardswish":
            _replace_by_hard_swish(module_of(main), self.calibration)
            return
        offer = None
        if self.silu == "auto" and self.target is not None:
            offer = configured(self.target, self.board).form_offer()
        for unary in main.body.block.ops:
            if isinstance(unary, graph.UnaryOp):
                _set(unary, self.silu, offer)


def _set(op: graph.UnaryOp, silu: str, offer: Offer | None) -> None:
    is_swish = op.function.data is graph.Function.SWISH
    if not is_table(op) or form_of(op) is not None:
        return
    if is_swish or silu == "table16":
        record_use("silu")
    if not reads_sum(op):
        # There is no sum to store in 16 bits, so the operand is int8 or float.
        if silu == "float" and is_swish:
            keep_in_float(op, "the option silu requires float")
        return
    linear = op.input.owner
    if offer is not None and isinstance(linear, graph.LinearOperation):
        set_form(op, Form(offer(op, linear)))
    elif silu == "table16":
        set_form(op, Form.TABLE16)
    elif silu == "piecewise" and is_swish and op.function.affine is None:
        set_form(op, Form.SHIFTS)
    elif silu == "float" and is_swish:
        set_form(op, Form.FLOAT)


def _replace_by_hard_swish(module: ModuleOp, calibration: str | None) -> None:
    before = module.clone() if calibration is not None else None
    replaced = replace_swish(module)
    if not replaced:
        return
    record_use("silu")
    cost = "give calibration=FILE.npz to measure the noise"
    if before is not None and calibration is not None:
        from ceras_ir.transforms.quantization.analysis.calibration import calibration_samples
        from ceras_ir.transforms.quantization.analysis.output_noise import output_ratio

        samples = list(
            calibration_samples(module, calibration, MAX_MEASURED_SAMPLES, "measuring HardSwish")
        )
        ratio = output_ratio(before, module, samples)
        cost = (
            f"in float, before rounding, the outputs have a signal-to-noise ratio of {ratio:.1f} dB"
        )
    remark(
        f"set-functions: warning: {replaced} SiLU became HardSwish, another function: a network "
        f"that was not trained for it may lose accuracy; {cost}. Without retraining use "
        "silu=table, table16 or piecewise"
    )


@dataclass(frozen=True)
class SetFunctionsPass(
    NarrowOptions, ArithmeticOptions, CalibrationOptions, SiluOptions, RowsOptions, RulePass
):
    """
    Choose the forms of normalizations, softmax, SiLU and other non-clipping activations.

    Before, with `silu=piecewise`:

        %y = graph.matmul %x, %w {activation = #graph.function<swish>}
            : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>

    After:

        %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %y = graph.unary <swish> %a {graph.form = "shifts"} : tensor<1x2xf32>
    """

    name = "set-functions"

    def table(self) -> tuple[ModulePass, ...]:
        return (
            NormalizationRule(),
            with_options_of(RowRule, self),
            SplitActivationRule(),
            MergeSlopesRule(),
            with_options_of(PairSlopesRule, self),
            with_options_of(SiluRule, self),
        )
