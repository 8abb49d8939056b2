"""Passes that were, and what to do instead."""

from ceras_ir.support.diagnostics import UsageError
from ceras_ir.transforms.quantization.recipe import GONE

_NO_TRIALS = "nothing is tried; option 'recipe' of quantize lists the optional passes that run"
_SILU = "set-silu chooses how functions are computed"
_VALUES = "fuse-functions recognizes all functions"

REMOVED_PASSES = {
    "choose-forms": _SILU,
    "choose-recipe": _NO_TRIALS,
    "correct-bias": GONE["correct-bias"],
    "fuse-gelu": _VALUES,
    "fuse-hard-swish": _VALUES,
    "fuse-swish": _VALUES,
    "offer-forms": _SILU,
    "set-recipe": _NO_TRIALS,
}


def refuse_removed(name: str) -> None:
    """Refuse the name of a pass that was."""
    if (instead := REMOVED_PASSES.get(name)) is not None:
        raise UsageError(f"pass '{name}' is gone: {instead}")
