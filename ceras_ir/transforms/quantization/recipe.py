"""
Recipes: which of the optional passes of `quantize` run.

Without one the arithmetic of the targets decides, see `default_recipe`; no data is tried on.
"""

from collections.abc import Sequence

from ceras_ir.command.tool_parser import names
from ceras_ir.support.diagnostics import UsageError, did_you_mean

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
            raise UsageError(f"{option} {name} is gone: {instead.format(option)}")
        parts = name.split("-")
        if all(part in REMOVED for part in parts):
            passes = [each for part in parts for each in REMOVED[part]]
            instead = ",".join(p for p in OPTIONAL if p in passes) or NONE
            raise UsageError(f"{option} {name} is gone: recipes are passes, write {instead}")
        hint = did_you_mean(name, OPTIONAL) or f" (passes: {', '.join(OPTIONAL)}; or {NONE})"
        raise UsageError(f"{option}: '{name}' is no optional pass of quantize{hint}")
