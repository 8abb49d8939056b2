"""
Recipes: which of the optional passes of `quantize` run.

`graph.recipe = [pass names]` on the function is what `choose-recipe` decided; the optional
passes look there when they are part of the pipeline, and run always when called alone.
"""

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.utils.hints import isa

RECIPE = "graph.recipe"

_CHANNELS, _ROWS = "equalize-channels", "choose-row-exponents"
_ROUNDING, BIAS = "round-weights", "correct-bias"
_ZERO_POINTS, _INPUTS = "choose-zero-points", "fit-inputs"

SYMMETRIC: dict[str, tuple[str, ...]] = {
    "plain": (),
    "bias": (BIAS,),
    "channels": (_CHANNELS,),
    "channels-bias": (_CHANNELS, BIAS),
    "rounding": (_ROUNDING,),
    "channels-rounding": (_CHANNELS, _ROUNDING),
    "channels-rounding-bias": (_CHANNELS, _ROUNDING, BIAS),
    "rows": (_ROWS,),
    "rows-bias": (_ROWS, BIAS),
    "rows-rounding": (_ROWS, _ROUNDING),
    "rows-rounding-bias": (_ROWS, _ROUNDING, BIAS),
    "rows-channels-bias": (_CHANNELS, _ROWS, BIAS),
    "rows-channels-rounding": (_CHANNELS, _ROWS, _ROUNDING),
    "rows-channels-rounding-bias": (_CHANNELS, _ROWS, _ROUNDING, BIAS),
}

ASYMMETRIC = "asymmetric-"
"""Before the name of a recipe: with zero points, and inputs in steps that fit them, besides."""

RECIPES = SYMMETRIC | {
    ASYMMETRIC + name: (*passes, _INPUTS, _ZERO_POINTS) for name, passes in SYMMETRIC.items()
}
"""Name of a recipe -> the optional passes in it."""

MIXED = "graph.mixed"
"""Set on the function by `choose-recipe` where `choose-precision` is to find a few values."""

AUTO = "auto"
"""Try `TRIED` on the calibration data and keep the best."""

TRIED: tuple[str, ...] = ("plain", "channels-rounding", "channels-rounding-bias")
"""What `auto` tries; on a tie the first stays."""

TRIED_ROWS = ("rows-channels-rounding", "rows-channels-rounding-bias")
"""What it tries besides, for targets that shift each channel by itself."""

LARGE = 1_000_000_000
"""Multiplications per inference from which trials, or many samples at once, would take minutes."""

UNTRIED = "channels-rounding"
"""What it takes on networks that are too large to try several."""


def set_recipe(main: FuncOp, recipe: str) -> None:
    """Have the optional passes of `recipe` run; one that has none leaves no attribute."""
    main.attributes.pop(RECIPE, None)
    if not RECIPES[recipe]:
        return
    main.attributes[RECIPE] = ArrayAttr([StringAttr(name) for name in RECIPES[recipe]])


def passes_of(main: FuncOp) -> tuple[str, ...]:
    """The optional passes of the recipe that was set; none without one."""
    names = main.attributes.get(RECIPE)
    return tuple(name.data for name in names) if isa(names, ArrayAttr[StringAttr]) else ()


def recipe_of(main: FuncOp) -> str | None:
    """The name of the recipe that was set."""
    if RECIPE not in main.attributes:
        return None
    return name_of(passes_of(main))


def name_of(passes: tuple[str, ...]) -> str | None:
    """The name of the recipe that has exactly these passes."""
    return next((name for name, inside in RECIPES.items() if inside == passes), None)


def runs(main: FuncOp, pass_name: str, *, when_chosen: bool) -> bool:
    """Whether an optional pass runs: on a float network, `when_chosen` if its recipe has it."""
    # Not above: the command line needs the names of recipes before any dialect is loaded.
    from ceras_ir.network.quantizable import is_quantized

    if is_quantized(main):
        return False
    chosen = recipe_of(main)
    return not when_chosen or (chosen is not None and pass_name in RECIPES[chosen])
