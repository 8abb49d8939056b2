"""
The options of the passes of `quantize`, with a class for the options of each pass, and the recipes.

A pipeline and `BuildOptions` inherit the options that they hand on. The options are separate from
the passes, so that the command line loads neither the passes nor numpy.

A recipe says which of the optional passes of `quantize` run. Without a recipe the arithmetic of the
targets decides, see `default_recipe`; no data is tried on.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from ceras_ir.command.tool_parser import names
from ceras_ir.support.diagnostics import UsageError, did_you_mean
from ceras_ir.support.options import option, options

# Recipes: which of the optional passes of `quantize` run.
#
# Without one the arithmetic of the targets decides, see `default_recipe`; no data is tried on.

INPUTS, CHANNELS, ZERO_POINTS = "fit-inputs", "equalize-channels", "choose-zero-points"
PRECISION, ROWS = "choose-precision", "choose-row-exponents"
ROUNDING = "round-weights"

OPTIONAL = (INPUTS, CHANNELS, ZERO_POINTS, PRECISION, ROWS, ROUNDING)
"""In the order in which they run."""

DEFAULT_BUDGET = 0.1
"""Share of a network's modelled time that `choose-precision` may spend."""

HOST_BUDGET = 0.4
"""The same where layers with values in 16 bits leave the accelerator: a tenth buys nothing."""

NONE = "none"
"""The recipe without any of them."""

REMOVED = {
    "asymmetric": (INPUTS, ZERO_POINTS),
    "channels": (CHANNELS,),
    "rows": (ROWS,),
    "rounding": (ROUNDING,),
    "bias": (),
    "plain": (),
}
"""What the parts of the names that recipes had stand for."""

GONE = {
    "auto": "the target decides if {} is left out",
    "correct-bias": "round-weights takes mean errors into biases",
}
"""Recipes that were, and what to do instead."""

REMOVED_FLAGS = {
    "--mixed": "values in 16 bits are found by themselves, within --budget; --float names layers",
    "--target-sqnr": "raise --budget, or name layers by --int16 and --float",
}
"""Options of the commands that were, and what to use instead."""

REMOVED_OPTIONS = {
    "one-shift": "target says how the network is quantized, by its arithmetic",
    **{flag[2:]: instead.replace("--", "") for flag, instead in REMOVED_FLAGS.items()},
}
"""Those of `quantize`."""


def default_recipe(*, channel_shifts: bool) -> tuple[str, ...]:
    """What runs if nobody says otherwise, on targets with a shift for each channel or not."""
    rows = (ROWS,) if channel_shifts else ()
    return INPUTS, CHANNELS, ZERO_POINTS, PRECISION, *rows, ROUNDING


def recipe_names(text: str) -> list[str]:
    """The passes of `--recipe`, checked."""
    found = names(text)
    check_recipe(found, "--recipe")
    return found


def check_recipe(recipe: Sequence[str], option: str) -> None:
    """Refuse what names no optional pass, with what to write instead."""
    for name in recipe:
        if name in OPTIONAL or (name == NONE and len(recipe) == 1):
            continue
        if (instead := GONE.get(name)) is not None:
            raise UsageError(f"{option} {name} was removed: {instead.format(option)}")
        parts = name.split("-")
        if all(part in REMOVED for part in parts):
            passes = [each for part in parts for each in REMOVED[part]]
            instead = ",".join(p for p in OPTIONAL if p in passes) or NONE
            raise UsageError(f"{option} {name} was removed: recipes are passes, write {instead}")
        hint = did_you_mean(name, OPTIONAL) or f" (passes: {', '.join(OPTIONAL)}; or {NONE})"
        raise UsageError(f"{option}: '{name}' is no optional pass of quantize{hint}")


# The options of the passes of `quantize`, a class for the options of each pass.
#
# A pipeline and `BuildOptions` inherit the options that they hand on. They are separate from the
# passes, so that the command line loads neither the passes nor numpy.

ObserverName: TypeAlias = Literal["auto", "mse", "minmax"]
Silu: TypeAlias = Literal["auto", "table", "table16", "hardswish", "float", "piecewise"]
Rows: TypeAlias = Literal["auto", "integer", "float"]


@options
class CalibrationOptions:
    """The data that passes learn from; of `observe-ranges` and each other calibrated pass."""

    calibration: str | None = option(
        None, flag="--calibrate", metavar="DATA.npz|DIR", action="append", read=str
    )
    """
    Choose scales from these inputs: one array per graph input, whose first axis is samples, or a
    folder of images; may be repeated, or list files by commas. Without them ranges come from the IR
    or from synthetic inputs, and a note on stderr says so.

    A pass takes files separated by commas. The optional passes of `quantize` do nothing without
    samples.
    """


@options
class SampleOptions(CalibrationOptions):
    """Which samples of the data passes use."""

    samples: int = option(
        64, flag="--calibration-samples", keyword="calibration_samples", metavar="N", least=1
    )
    """How many of them are looked at."""
    draw: int | None = option(
        None, flag="--calibration-seed", keyword="calibration_seed", metavar="SEED", least=0
    )
    """Look at samples that the seed chooses, instead of at some with even distances."""


@options
class ObserverOptions:
    """Of `observe-ranges`."""

    seed: int = 0
    """Seed of synthetic samples."""
    observer: ObserverName = option("auto", shows_default=False)
    """
    Choose scales by least squared error (mse) or extremes (minmax); auto, the default, is mse from
    16 samples on, and clips nothing below.

    With mse, zero points are chosen too. With auto no value is moved by more than half a step,
    after the function that reads it, in two cases: with less than 16 samples, because they do not
    show how rare an extreme is; and for operands and results of a softmax, because its rare
    extremes decide.
    """


@options
class RecipeOptions:
    """Of `quantize`."""

    recipe: tuple[str, ...] = option((), metavar="PASS,...", action="extend", read=recipe_names)
    """
    Run these optional passes of quantization, of fit-inputs, equalize-channels, choose-zero-points,
    choose-precision, choose-row-exponents, round-weights; or none (default: all, but
    choose-row-exponents only where the target shifts each channel by itself).
    """


@options
class SiluOptions:
    """Of `set-functions`: activations."""

    silu: Silu = option("auto")
    """
    Compute SiLU by a table on int8 (table) or on 16 bits (table16), as HardSwish (a warning states
    the cost), in float, or by MIN, MAX, ADD and shifts (piecewise); auto, the default: by tables,
    on 16 bits where it matters, or as the target prefers.

    table: 256 entries, indexed by the int8 argument. table16: 1024 entries, indexed by the 16-bit
    sum of the convolution before it, for other functions with tables too. piecewise:
    `graph.shift_swish` of that sum. float: on float32, from that sum. hardswish: hard_swish
    instead, by a table. auto: table, but piecewise where the target declares that its device takes
    no longer than the host for a table, both transfers included; `choose-precision` then takes
    table16 where it matters.
    """


@options
class RowsOptions:
    """Of `set-functions`: functions of rows."""

    rows: Rows = option("auto")
    """
    Compute softmax and normalizations in integers, or in float between them; auto, the default: in
    integers where the target has them.
    """


@options
class LayerOptions:
    """Of `set-precision`."""

    int16: tuple[str, ...] = option((), metavar="LAYER,...", action="extend")
    """
    Store these layers in 16 bits, by node name or pattern such as 'conv_*'; may be repeated.

    The scale holds twice the range seen. Inputs can be named too.
    """
    float: tuple[str, ...] = option((), metavar="LAYER,...", action="extend", keyword="in_float")
    """
    Compute these layers in float, by node name or pattern such as 'conv_*'; may be repeated.

    They run on the CPU.
    """


@options
class ExceptionOptions:
    """Of `keep-in-float`."""

    besides: tuple[str, ...] = ()
    """Layers to leave out, by the names and patterns of `set-precision`."""


@options
class BudgetOptions:
    """Of `choose-precision`."""

    budget: float | None = option(None, metavar="SHARE", least=0)
    """
    Let values in 16 bits take this share of the network's modelled time, those first that int8
    hurts most; 0 for none (default: 0.1, and 0.4 where layers with such values leave the
    accelerator for its host).
    """


@options
class ResidualSpreadOptions:
    """Of the passes that depend on how a target shifts residuals."""

    residual_spread: int = 0
    """By how many bits more the residual of one channel may be shifted than of another."""


@options
class ArithmeticOptions:
    """Of `quantize`: the target in whose arithmetic a network is quantized, also if not for it."""

    target: str | None = option(None, metavar="NAME")
    """
    Quantize in the arithmetic of this target (default: of any).

    The arithmetic decides the optional passes and the forms of functions.
    """
    board: str | None = option(None, metavar="NAME|FILE")
    """Quantize for this board of the target."""


@options
class QuantizationOptions(
    BudgetOptions,
    LayerOptions,
    RowsOptions,
    SiluOptions,
    RecipeOptions,
    ObserverOptions,
    SampleOptions,
):
    """All options of `quantize` that a command line has."""
