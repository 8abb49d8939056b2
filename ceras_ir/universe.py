"""
What this project adds to xDSL: names of dialects, passes and targets, and where they live.

Nothing is imported until it is asked for, so that a tool pays only for what it uses. A pass
`fold-batch-norm` is the class `FoldBatchNormPass` in `ceras_ir/transforms/fold_batch_norm.py`:
to add one, write the file and add its name here. `xdsl.universe` in `pyproject.toml` points
at `CERAS_UNIVERSE`, which is how `ceras-opt` and plain `xdsl-opt` both find it all.
"""

from collections.abc import Callable
from importlib import import_module

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.target import Target

DIALECTS = {
    "graph": "ceras_ir.dialects.graph:Graph",
    "mem": "ceras_ir.dialects.mem:Mem",
    "quant": "ceras_ir.dialects.quant:Quant",
    "tile": "ceras_ir.dialects.tile:Tile",
    "vta": "ceras_ir.dialects.vta:Vta",
}
"""Dialect name -> `module:attribute`."""

PASSES: tuple[str, ...] = (
    "align-scales",
    "allocate-blocks",
    "calibrate",
    "check-scales",
    "choose-forms",
    "choose-precision",
    "choose-recipe",
    "choose-row-exponents",
    "choose-weight-exponents",
    "choose-zero-points",
    "convert-graph-to-tile",
    "convert-tile-to-vta",
    "correct-bias",
    "drop-tie-breakers",
    "eliminate-transposes",
    "encode-weights",
    "equalize-channels",
    "expand-tiles",
    "explain",
    "fit-functions",
    "fit-inputs",
    "fold-batch-norm",
    "fold-dequantized-constants",
    "fold-packing",
    "fold-qdq",
    "fuse",
    "fuse-activation",
    "fuse-bias",
    "fuse-mean",
    "fuse-pad",
    "fuse-residual",
    "fuse-swish",
    "hoist-quantize",
    "im2col",
    "keep-heads-apart",
    "make-signed",
    "observe-ranges",
    "offer-forms",
    "place",
    "print-liveness",
    "prove-accumulators",
    "prune",
    "quantize",
    "quantize-graph",
    "reorder-for-memory",
    "round-weights",
    "schedule-tiles",
    "set-precision",
    "set-recipe",
    "set-silu",
    "sink-dequantize",
    "snap-scales",
    "space-to-depth",
    "split-activation",
    "strip-border-quantization",
    "swish-to-hard-swish",
    "tile",
    "unfuse-residual",
)
"""Names of all passes and pipelines of `ceras_ir/transforms`, sorted."""

TARGETS: dict[str, str] = {
    "c": "ceras_ir.backends.c.target:CTarget",
    "onnx": "ceras_ir.backends.onnx.target:OnnxTarget",
}
"""Name of a text target of `ceras-opt -t` -> `module:class`."""


def pass_path(name: str) -> str:
    """`module:class` of the pass called `name`, by convention."""
    class_name = "".join(part.capitalize() for part in name.split("-")) + "Pass"
    return f"ceras_ir.transforms.{name.replace('-', '_')}:{class_name}"


def load(path: str) -> object:
    """The object at `module:attribute`."""
    module, attribute = path.split(":")
    return getattr(import_module(module), attribute)


def _dialect(path: str) -> Callable[[], Dialect]:
    def factory() -> Dialect:
        dialect = load(path)
        assert isinstance(dialect, Dialect), path
        return dialect

    return factory


def _pass(name: str) -> Callable[[], type[ModulePass]]:
    def factory() -> type[ModulePass]:
        cls = load(pass_path(name))
        assert isinstance(cls, type) and issubclass(cls, ModulePass), name
        assert cls.name == name, f"{cls} is named {cls.name}, expected {name}"
        return cls

    return factory


def _target(path: str) -> Callable[[], type[Target]]:
    def factory() -> type[Target]:
        cls = load(path)
        assert isinstance(cls, type) and issubclass(cls, Target), path
        return cls

    return factory


CERAS_UNIVERSE = Universe(
    all_dialects={name: _dialect(path) for name, path in DIALECTS.items()},
    all_passes={name: _pass(name) for name in PASSES},
    all_targets={name: _target(path) for name, path in TARGETS.items()},
)
