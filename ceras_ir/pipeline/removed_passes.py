"""Passes that were, and what to do instead."""

from ceras_ir.support.diagnostics import UsageError
from ceras_ir.transforms.quantization.recipe import GONE

_NO_TRIALS = "nothing is tried; option 'recipe' of quantize lists the optional passes that run"
_SILU = "set-functions chooses how functions are computed"
_VALUES = "fuse-functions recognizes all functions"

_RULES = {
    "fold-affine": {
        "fuse-clips": "clips",
        "fuse-affine": "functions",
        "fold-batch-norm": "batch-norms",
        "fuse-bias": "biases",
        "matmul-to-convolution": "pixels",
        "fold-affine-forward": "forward",
        "batch-norm-to-depthwise": "depthwise",
    },
    "fold-identities": {
        "drop-nan-guards": "nan-guards",
        "drop-expands": "expands",
    },
    "fold-qdq": {
        "make-signed": "signs",
        "sink-dequantize": "sink",
        "hoist-quantize": "hoist",
        "drop-tie-breakers": "ties",
        "fold-dequantized-constants": "constants",
    },
    "fuse-epilogues": {
        "fuse-residual": "residuals",
        "fuse-activation": "activations",
    },
    "fuse-functions": {
        "fuse-softmax": "softmax",
        "fuse-normalization": "normalization",
    },
    "fuse-windows": {
        "fuse-mean": "means",
        "fuse-pad": "pads",
        "fold-crop": "crops",
        "fold-stride": "strides",
    },
    "keep-in-float": {
        "keep-head-in-float": "head",
        "keep-tail-in-float": "tail",
        "keep-fills-in-float": "fills",
        "keep-masks-in-float": "masks",
        "keep-wide-factors-in-float": "factors",
        "keep-wide-ranges-in-float": "ranges",
        "keep-pixels-in-float": "pixels",
        "keep-moves-in-float": "moves",
        "fork-moves": "forks",
        "separate-cell-state": "cell-states",
    },
    "quantize-graph": {
        "quantize-recurrence": "recurrences",
        "strip-state-quantization": "states",
        "order-float-sums": "float-sums",
    },
    "set-functions": {
        "set-rows": "rows",
        "split-activation": "split-activations",
        "set-silu": "silu",
    },
    "split-wide": {
        "split-wide-results": "results",
        "split-wide-inputs": "inputs",
    },
}
"""Pass -> passes that became one of the rules of it, and that rule."""

REMOVED_PASSES = {
    "choose-forms": _SILU,
    "choose-recipe": _NO_TRIALS,
    "correct-bias": GONE["correct-bias"],
    "fuse-gelu": _VALUES,
    "fuse-hard-swish": _VALUES,
    "fuse-swish": _VALUES,
    "offer-forms": _SILU,
    "set-recipe": _NO_TRIALS,
    **{
        name: f"it is a rule of a pass, write {pass_}{{rules={rule}}}"
        for pass_, rules in _RULES.items()
        for name, rule in rules.items()
    },
}


def refuse_removed(name: str) -> None:
    """Refuse the name of a pass that was."""
    if (instead := REMOVED_PASSES.get(name)) is not None:
        raise UsageError(f"pass '{name}' is gone: {instead}")
