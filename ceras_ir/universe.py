"""
List the dialects, passes and targets that this project adds to xDSL, and their modules.

Modules are imported on first use, so that a tool starts quickly. The pass `fold-affine` is the
class `FoldAffinePass` in `transforms/graph/fold_affine.py`. To add a pass, write the class in the
file of the subject and add the name here. A target class lists the passes and dialects of the
target. `xdsl.universe` in `pyproject.toml` refers to `CERAS_UNIVERSE`, which `ceras-opt` and
`xdsl-opt` use.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.target import Target as TextTarget

from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.plugin_modules import qualified
from ceras_ir.targets.protocol import Target, class_name
from ceras_ir.targets.registry import all_targets

DIALECTS = {
    "graph": "ceras_ir.dialects.graph:Graph",
    "mem": "ceras_ir.dialects.mem:Mem",
    "quant": "ceras_ir.dialects.quant:Quant",
    "sparse": "ceras_ir.dialects.sparse:Sparse",
}
"""Dialect name -> `module:attribute`."""

PASSES: dict[str, tuple[str, ...]] = {
    "ceras_ir.transforms.graph.branches": ("distribute-concat", "fuse-branches"),
    "ceras_ir.transforms.graph.decode_outputs": ("decode-outputs",),
    "ceras_ir.transforms.graph.eliminate_transposes": ("eliminate-transposes",),
    "ceras_ir.transforms.graph.fold_affine": ("fold-affine", "split-affine"),
    "ceras_ir.transforms.graph.fold_identities": ("fold-identities",),
    "ceras_ir.transforms.graph.fuse": ("fuse", "fuse-epilogues"),
    "ceras_ir.transforms.graph.fuse_functions": ("fuse-functions", "swish-to-hard-swish"),
    "ceras_ir.transforms.graph.fuse_windows": ("fuse-windows",),
    "ceras_ir.transforms.graph.inline": ("inline",),
    "ceras_ir.transforms.graph.split_phases": ("split-phases",),
    "ceras_ir.transforms.graph.take_images": ("take-images",),
    "ceras_ir.transforms.memory.allocate_blocks": (
        "allocate-blocks",
        "clear-plan",
        "print-liveness",
    ),
    "ceras_ir.transforms.memory.check_blocks": ("check-blocks",),
    "ceras_ir.transforms.memory.read_states": ("read-states",),
    "ceras_ir.transforms.memory.reorder_for_memory": ("reorder-for-memory",),
    "ceras_ir.transforms.memory.update_states": ("update-states",),
    "ceras_ir.transforms.placement": ("check-operations", "explain", "place"),
    "ceras_ir.transforms.pruning.prune": ("prune",),
    "ceras_ir.transforms.quantization.accumulators": ("prove-accumulators",),
    "ceras_ir.transforms.quantization.block_weights": ("block-weights",),
    "ceras_ir.transforms.quantization.channel_scales": ("equalize-channels", "level-rows"),
    "ceras_ir.transforms.quantization.channel_slopes": ("separate-slopes",),
    "ceras_ir.transforms.quantization.checks": ("check-outputs", "check-scales"),
    "ceras_ir.transforms.quantization.choose_precision": ("choose-precision",),
    "ceras_ir.transforms.quantization.fit_inputs": ("fit-inputs", "fold-factor"),
    "ceras_ir.transforms.quantization.float_blocks": ("float-blocks",),
    "ceras_ir.transforms.quantization.fold_qdq": ("fold-qdq",),
    "ceras_ir.transforms.quantization.fold_shifts": ("fold-shifts",),
    "ceras_ir.transforms.quantization.keep_in_float": ("keep-in-float",),
    "ceras_ir.transforms.quantization.observe_ranges": ("observe-ranges",),
    "ceras_ir.transforms.quantization.quantize": ("calibrate", "quantize"),
    "ceras_ir.transforms.quantization.quantize_graph": (
        "quantize-graph",
        "strip-border-quantization",
    ),
    "ceras_ir.transforms.quantization.residuals": ("split-residual", "unfuse-residual"),
    "ceras_ir.transforms.quantization.round_weights": ("round-weights",),
    "ceras_ir.transforms.quantization.scales": (
        "align-scales",
        "choose-row-exponents",
        "choose-weight-exponents",
        "choose-zero-points",
    ),
    "ceras_ir.transforms.quantization.set_activation_bits": ("set-activation-bits",),
    "ceras_ir.transforms.quantization.set_precision": (
        "fit-functions",
        "set-functions",
        "set-precision",
    ),
    "ceras_ir.transforms.quantization.set_weight_bits": ("set-weight-bits",),
    "ceras_ir.transforms.quantization.snap_scales": ("snap-scales",),
    "ceras_ir.transforms.quantization.split_wide": ("split-wide",),
    "ceras_ir.transforms.quantization.tabulate_pixels": ("tabulate-pixels",),
    "ceras_ir.transforms.quantization.unfold_qdq": ("unfold-qdq",),
    "ceras_ir.transforms.quantization.widen_weights": (
        "float-weights",
        "keep-weights",
        "widen-activations",
        "widen-weights",
    ),
}
"""Module -> names of passes and pipelines, sorted. Targets list the passes of the target."""


def load(path: str) -> object:
    """Import and return the object at `path`, such as `ceras_ir.dialects.graph:Graph`."""
    module, attribute = path.split(":")
    return getattr(import_module(module), attribute)


def _dialect(path: str) -> Dialect:
    dialect = load(path)
    assert isinstance(dialect, Dialect), path
    return dialect


def _pass(name: str, path: str) -> type[ModulePass]:
    cls = load(path)
    assert isinstance(cls, type) and issubclass(cls, ModulePass), name
    assert cls.name == name, f"{cls} is named {cls.name}, expected {name}"
    return cls


def _text(path: str) -> type[TextTarget]:
    cls = load(path)
    assert isinstance(cls, type) and issubclass(cls, TextTarget), path
    return cls


def universe_of(target: type[Target]) -> Universe:
    """
    Return the dialects and passes that `target` adds, for `xdsl-opt`, together with the xDSL target
    that prints the text format of `target`, if it has one.
    """
    dialects, passes = (
        {name: qualified(path, target) for name, path in paths.items()}
        for paths in (target.dialects, target.passes)
    )
    return _universe(dialects, passes, [target])


def dialect_paths() -> dict[str, str]:
    """Map the name of each dialect, including those of installed targets, to `module:attribute`."""
    paths = dict(DIALECTS)
    for target in all_targets():
        paths |= target.dialects
    return paths


def pass_paths() -> dict[str, str]:
    """Map the name of each pass, including those of installed targets, to `module:class`."""
    paths: dict[str, str] = {}
    for module, names in PASSES.items():
        paths |= {name: f"{module}:{class_name(name)}" for name in names}
    for target in all_targets():
        paths |= target.passes
    return paths


def _universe(
    dialects: Mapping[str, str], passes: Mapping[str, str], targets: Sequence[type[Target]]
) -> Universe:
    return Universe(
        all_dialects={name: partial(_dialect, path) for name, path in dialects.items()},
        all_passes={name: partial(_pass, name, path) for name, path in passes.items()},
        all_targets={
            t.name: partial(_text, qualified(t.text, t)) for t in targets if t.text is not None
        },
    )


# Names of passes that were removed.

_NO_TRIALS = "nothing is tried; option 'recipe' of quantize lists the optional passes that run"
_SILU = "set-functions chooses how functions are computed"
_VALUES = "fuse-functions recognizes all functions"

REMOVED_RULES = {
    "fold-affine": (
        "fuse-clips=clips fuse-affine=functions fold-batch-norm=batch-norms fuse-bias=biases "
        "matmul-to-convolution=pixels fold-affine-forward=forward "
        "batch-norm-to-depthwise=depthwise"
    ),
    "fold-identities": "drop-nan-guards=nan-guards drop-expands=expands",
    "fold-qdq": (
        "make-signed=signs sink-dequantize=sink hoist-quantize=hoist drop-tie-breakers=ties "
        "fold-dequantized-constants=constants"
    ),
    "fuse-epilogues": "fuse-residual=residuals fuse-activation=activations",
    "fuse-functions": "fuse-softmax=softmax fuse-normalization=normalization",
    "fuse-windows": "fuse-mean=means fuse-pad=pads fold-crop=crops fold-stride=strides",
    "keep-in-float": (
        "keep-head-in-float=head keep-tail-in-float=tail keep-fills-in-float=fills "
        "keep-masks-in-float=masks keep-wide-factors-in-float=factors "
        "keep-wide-ranges-in-float=ranges keep-pixels-in-float=pixels keep-moves-in-float=moves "
        "fork-moves=forks separate-cell-state=cell-states"
    ),
    "quantize-graph": (
        "quantize-recurrence=recurrences strip-state-quantization=states "
        "order-float-sums=float-sums"
    ),
    "set-functions": "set-rows=rows split-activation=split-activations set-silu=silu",
    "split-wide": "split-wide-results=results split-wide-inputs=inputs",
}
"""Pass -> names of removed passes, with the rule of the pass that replaces each."""


def removed_passes() -> dict[str, str]:
    """Map the name of each pass of earlier versions to a sentence about the replacement."""
    # A command does not import the options of quantization for this table.
    from ceras_ir.transforms.quantization_options import REMOVED_RECIPES

    names = {
        "choose-forms": _SILU,
        "choose-recipe": _NO_TRIALS,
        "correct-bias": REMOVED_RECIPES["correct-bias"],
        "fuse-gelu": _VALUES,
        "fuse-hard-swish": _VALUES,
        "fuse-swish": _VALUES,
        "offer-forms": _SILU,
        "set-recipe": _NO_TRIALS,
    }
    for pass_, rules in REMOVED_RULES.items():
        for name, rule in (each.split("=") for each in rules.split()):
            names[name] = f"it is a rule of a pass, write {pass_}{{rules={rule}}}"
    return names


def refuse_removed(name: str) -> None:
    """
    Raise a `UsageError` with the replacement if `name` is a pass of an earlier version. Any other
    name is accepted.
    """
    if (instead := removed_passes().get(name)) is not None:
        raise UsageError(f"pass '{name}' was removed: {instead}")


CERAS_UNIVERSE = _universe(dialect_paths(), pass_paths(), all_targets())
