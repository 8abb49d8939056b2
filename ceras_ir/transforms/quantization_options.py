"""
Declare the options of the passes of `quantize`, a class per pass, and the recipes.

A pipeline and `BuildOptions` inherit the options that they pass on. The options are separate from
the passes, so that the command line loads neither the passes nor numpy.

A recipe lists the optional passes of `quantize` that run. Without a recipe the arithmetic of the
targets decides, see `default_recipe`; no data is used for the decision.
"""

from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

from ceras_ir.command.tool_parser import file_list, names, number
from ceras_ir.support.diagnostics import UsageError, did_you_mean
from ceras_ir.support.options import inherited, option, options
from ceras_ir.targets.shared_options import BoardOptions, TargetNameOptions

FIT_INPUTS, EQUALIZE_CHANNELS, CHOOSE_ZERO_POINTS = (
    "fit-inputs",
    "equalize-channels",
    "choose-zero-points",
)
CHOOSE_PRECISION, CHOOSE_ROW_EXPONENTS = "choose-precision", "choose-row-exponents"
ROUND_WEIGHTS = "round-weights"

OPTIONAL_PASSES = (
    FIT_INPUTS,
    EQUALIZE_CHANNELS,
    CHOOSE_ZERO_POINTS,
    CHOOSE_PRECISION,
    CHOOSE_ROW_EXPONENTS,
    ROUND_WEIGHTS,
)
"""The optional passes in the order in which they run."""

DEFAULT_BUDGET = 0.1
"""The share of the network's modelled time that `choose-precision` can add."""

SIGNAL_BUDGET = 0.5
"""The same on a host if an output is an image or sound, in which int8 is seen or heard."""

UNLIMITED_BUDGET = 1.0
"""The share from which 16-bit values are limited neither by time nor by a goal."""

NO_PASSES = "none"
"""The recipe without optional passes."""

REMOVED = {
    "asymmetric": (FIT_INPUTS, CHOOSE_ZERO_POINTS),
    "channels": (EQUALIZE_CHANNELS,),
    "rows": (CHOOSE_ROW_EXPONENTS,),
    "rounding": (ROUND_WEIGHTS,),
    "bias": (),
    "plain": (),
}
"""Parts of the names of former recipes -> passes."""

REMOVED_RECIPES = {
    "auto": "leave out {}, and the target decides",
    "correct-bias": "round-weights includes bias correction",
}
"""Removed recipes, and the replacement."""

REMOVED_FLAGS = {
    "--mixed": "16-bit values are chosen automatically, within --budget; --float names layers",
    "--target-sqnr": "raise --budget, or name layers by --int16 and --float",
}
"""Removed flags of the commands, and the replacement."""

REMOVED_OPTIONS = {
    "one-shift": "target defines the arithmetic of the network",
    **{flag[2:]: instead.replace("--", "") for flag, instead in REMOVED_FLAGS.items()},
}
"""Removed options of `quantize`, and the replacement."""


def default_recipe(*, channel_shifts: bool) -> tuple[str, ...]:
    """
    Return the names of the optional passes of quantization that run by default.
    `choose-row-exponents` is included only if the target has a separate shift for each channel
    (`channel_shifts`).
    """
    rows = (CHOOSE_ROW_EXPONENTS,) if channel_shifts else ()
    return FIT_INPUTS, EQUALIZE_CHANNELS, CHOOSE_ZERO_POINTS, CHOOSE_PRECISION, *rows, ROUND_WEIGHTS


def recipe_names(text: str, option: str = "--recipe") -> list[str]:
    """
    Return the names of passes in the text of `option`. Raise a `UsageError` for a name that is not
    an optional pass of quantization.
    """
    found = names(text)
    check_recipe(found, option)
    return found


def share(text: str) -> float:
    """Parse the text of `--budget`, such as `0.1`, as a share of the time. Refuse a percentage."""
    if text.endswith("%"):
        with suppress(ValueError):
            percent = float(text[:-1])
            raise ArgumentTypeError(f"expected a share, got '{text}': write {percent / 100:g}")
    return number(float, 0, text)


def check_recipe(recipe: Sequence[str], option: str) -> None:
    """
    Raise a `UsageError` with a remedy for names that are not optional passes of quantization.
    `option` is the name of the option in the message.
    """
    for name in recipe:
        if name in OPTIONAL_PASSES or (name == NO_PASSES and len(recipe) == 1):
            continue
        if (instead := REMOVED_RECIPES.get(name)) is not None:
            raise UsageError(f"{option} {name} was removed: {instead.format(option)}")
        parts = name.split("-")
        if all(part in REMOVED for part in parts):
            passes = [each for part in parts for each in REMOVED[part]]
            instead = ",".join(p for p in OPTIONAL_PASSES if p in passes) or NO_PASSES
            raise UsageError(f"{option} {name} was removed: recipes are passes, write {instead}")
        if name == NO_PASSES:
            raise UsageError(f"{option}: '{NO_PASSES}' is a recipe without passes: remove it")
        hint = (
            did_you_mean(name, OPTIONAL_PASSES)
            or f" (passes: {', '.join(OPTIONAL_PASSES)}; or {NO_PASSES})"
        )
        raise UsageError(f"{option}: '{name}' is not an optional pass of quantize{hint}")


# The conditions without which an option has no effect.

SCALES = "chosen scales"
"""The compiler quantizes the network and chooses the scales."""

CALIBRATED = "calibrated"
"""The compiler chooses scales, or rounds weights in blocks, on samples."""

SILU = "SiLU"
"""The network is computed in a form of SiLU that the option selects."""

SAMPLES = "samples"
"""Calibration samples are given."""

ObserverName: TypeAlias = Literal["auto", "mse", "minmax"]
Silu: TypeAlias = Literal["auto", "table", "table16", "hardswish", "float", "piecewise"]
Rows: TypeAlias = Literal["auto", "integer", "float"]


@options
class CalibrationOptions:
    """The calibration data, an option of `observe-ranges` and each other calibrated pass."""

    calibration: str | None = option(
        None,
        flag="--calibrate",
        metavar="DATA.npz|DIR",
        action="append",
        read=file_list,
        needs=(CALIBRATED,),
        usual=True,
    )
    """
    Choose scales from these inputs: an array per graph input, samples first, or a folder of images;
    can be repeated, or list files separated by commas. By default, ranges are those of the IR or of
    synthetic inputs, with a note on stderr.

    A pass accepts files separated by commas. The optional passes of `quantize` have no effect
    without samples.
    """


@options
class SampleOptions(CalibrationOptions):
    """The options that select calibration samples."""

    samples: int = option(
        64,
        flag="--calibration-samples",
        keyword="calibration_samples",
        metavar="N",
        minimum=1,
        needs=(CALIBRATED, SAMPLES),
    )
    """The number of samples that are used."""
    draw: int | None = option(
        None,
        flag="--calibration-seed",
        keyword="calibration_seed",
        metavar="SEED",
        minimum=0,
        needs=(CALIBRATED, SAMPLES),
    )
    """Use samples chosen by this seed, instead of samples at equal distances."""


@options
class ObserverOptions:
    """The options of `observe-ranges` that determine ranges from samples."""

    seed: int = 0
    """The seed of synthetic samples."""
    observer: ObserverName = option("auto", shows_default=False, needs=(SCALES,))
    """
    Choose scales by the minimal squared error (mse) or by the extremes (minmax); auto, the default,
    is mse for 16 samples or more, and clips no value for fewer.

    With mse, zero points are chosen too. With auto, no value changes by more than half a step after
    the consumer's function, in two cases: for fewer than 16 samples, which do not show the
    frequency of an extreme; and for operands and results of a softmax, where rare extremes decide
    the result.
    """


@options
class RecipeOptions:
    """The option `recipe` of `quantize`, which selects optional passes."""

    recipe: tuple[str, ...] = option(
        (), metavar="PASS,...", action="extend", read=recipe_names, needs=(SCALES,)
    )
    """
    Run these optional passes of quantization, of fit-inputs, equalize-channels, choose-zero-points,
    choose-precision, choose-row-exponents, round-weights; or none (default: all;
    choose-row-exponents only if the target has a shift per channel).
    """


@options
class SiluOptions:
    """The option of `set-functions` for activations."""

    silu: Silu = option("auto", needs=(SILU,), unused="the network has no SiLU")
    """
    Compute SiLU by a table on int8 (table) or on 16 bits (table16), as HardSwish (a warning states
    the cost), in float, or by MIN, MAX, ADD and shifts (piecewise); auto, the default: by tables,
    on 16 bits if the accuracy requires it, or as the target prefers.

    table: 256 entries, indexed by the int8 argument. table16: 1024 entries, indexed by the 16-bit
    sum of the preceding convolution, also for other functions with tables. piecewise:
    `graph.shift_swish` of that sum. float: on float32, from that sum. hardswish: hard_swish
    instead, by a table. auto: table, but piecewise if the target declares that its device computes
    it in the time of a table on the host, both transfers included; `choose-precision` then uses
    table16 for sensitive layers.
    """


@options
class RowsOptions:
    """The option of `set-functions` for softmax and normalizations."""

    rows: Rows = option(
        "auto", needs=(SCALES,), unused="the network has no softmax or normalization"
    )
    """
    Compute softmax and normalizations in integers, or in float between them; auto, the default: in
    integers if the target supports them.
    """


@options
class LayerOptions:
    """The options of `set-precision`, which select layers in 16 bits and in float."""

    int16: tuple[str, ...] = option((), metavar="LAYER,...", action="extend", needs=(SCALES,))
    """
    Store these layers in 16 bits, by node name or pattern such as 'conv_*'; can be repeated.

    The scale holds twice the observed range. Graph inputs can be named too.
    """
    float: tuple[str, ...] = option(
        (), metavar="LAYER,...", action="extend", keyword="in_float", needs=(SCALES,)
    )
    """
    Compute these layers in float, named as for --int16; can be repeated.

    They run on the CPU.
    """


MIN_BITS, MAX_BITS = 2, 8
"""The bits that `--weight-bits` and `--activation-bits` accept."""


def bit_widths(text: str) -> list[str]:
    """
    Split the text of `--weight-bits` or `--activation-bits`, such as `4,8:conv1`, at commas. Raise
    an `ArgumentTypeError` if an entry has no width of 2 to 8 bits.
    """
    found = names(text)
    for entry in found:
        bits_and_layer(entry, ArgumentTypeError)
    return found


def bits_and_layer(
    entry: str, error: Callable[[str], Exception] = UsageError
) -> tuple[int, str | None]:
    """
    Return the bits and the name or pattern of layers in an entry of `--weight-bits` or
    `--activation-bits`: `8:conv1` gives `(8, "conv1")`, `4` gives `(4, None)`. Raise `error` for
    another form.
    """
    bits, colon, layer = entry.partition(":")
    has_form = bits.isdecimal() and (layer or not colon)
    if not has_form or not MIN_BITS <= int(bits) <= MAX_BITS:
        raise error(f"expected {MIN_BITS} to {MAX_BITS} bits, as BITS or BITS:LAYER, got '{entry}'")
    return int(bits), layer or None


@options
class FloatFormOptions:
    """The option of the passes that replace stored weights by floats."""

    quantizes: bool = False
    """The network will be quantized: `keep-weights` then restores the integers of weights."""


@options
class WeightBitsOptions:
    """The option of `set-weight-bits` and `block-weights`."""

    weight_bits: tuple[str, ...] = option(
        (), metavar="BITS[:LAYER],...", action="extend", read=bit_widths
    )
    """
    Store the weights of these layers in 2 to 8 bits, named as for --int16; without LAYER, of all
    layers except the smallest, which have 5% of the weights; can be repeated.

    In a float network, matrix products have 2, 4 or 8 bits, with a scale for each block of 32
    inputs, which are quantized at run time (targets c and arduino); --calibrate reduces the error.
    A later entry replaces an
    earlier one: `4,8:conv1,4:dense*`. The smallest layers are often the first, the last and
    depthwise layers, in which rounding adds most noise per byte.
    """


@options
class ActivationBitsOptions:
    """The option of `set-activation-bits`."""

    activation_bits: tuple[str, ...] = option(
        (), metavar="BITS[:LAYER],...", action="extend", read=bit_widths
    )
    """
    Store the results of these layers in 2 to 8 bits, named as for --int16; without LAYER, of all
    layers before the operands of the last layers; can be repeated.

    Circuits (target dataflow) have products and streams of these bits; other targets store a byte
    for each element. Graph inputs can be named. Operands and results of tables, and operands of
    softmax, normalizations and products of activations, keep 8 bits. 6 bits usually lose nothing.
    """


@options
class WeightOptions(WeightBitsOptions):
    """The options of `set-weight-bits`."""

    weight_bytes: int | None = None
    """Choose the widths of all other layers, so that the weights have at most these bytes."""


@options
class ExceptionOptions:
    """The option of `keep-in-float` that excludes layers."""

    besides: tuple[str, ...] = ()
    """Layers to exclude, by the names and patterns of `set-precision`."""


@options
class BudgetOptions:
    """The options of `choose-precision` that limit the additional time of 16-bit values."""

    budget: float | None = option(
        None, metavar="SHARE", minimum=0, read=share, needs=(SCALES, SAMPLES, CHOOSE_PRECISION)
    )
    """
    Allow 16-bit values to add this share of the network's modelled time, for the most sensitive
    values first; 0 for none, 1 for no limit (default: 0.1, or 0.5 without an accelerator if
    this meets the goal of an image or sound).
    """
    goal: float | None = option(
        None, metavar="DB", minimum=0, needs=(SCALES, SAMPLES, CHOOSE_PRECISION)
    )
    """
    Add 16-bit values until the measured signal-to-noise ratio of each output is DB (default: by
    kind of output, 30 for scores and detections, 36 for probabilities, 40 for regressions, 50 for
    masks, images and sound).
    """


@options
class ResidualSpreadOptions:
    """The option of the passes that depend on the target's residual shifts."""

    residual_spread: int = 0
    """The largest difference in bits between the residual shifts of two channels."""


@options
class TieOptions:
    """The option of the passes that depend on the target's rounding."""

    even: bool = True
    """The target rounds half to even in shifts."""


@options
class NarrowOptions:
    """The option of the passes for accelerators with 8-bit activations."""

    narrow: bool = False
    """The accelerator stores only 8 bits."""


@options
class ArithmeticOptions(BoardOptions, TargetNameOptions):
    """The target with the arithmetic of `quantize`, also for other targets."""

    target: str | None = inherited(TargetNameOptions, "target", None)
    """
    Quantize in the arithmetic of this target (default: no restriction).

    The arithmetic decides the optional passes and the forms of functions.
    """


@options
class QuantizationOptions(
    BudgetOptions,
    LayerOptions,
    ActivationBitsOptions,
    WeightOptions,
    RowsOptions,
    SiluOptions,
    RecipeOptions,
    ObserverOptions,
    SampleOptions,
):
    """All options of `quantize` on the command line."""
