"""
What this project adds to xDSL: names of dialects, passes and targets, and where they live.

Nothing is imported until it is asked for, so that a tool pays only for what it uses. The
pass `fold-batch-norm` is the class `FoldBatchNormPass` in `transforms/graph/fold_batch_norm.py`:
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
    "vta": "ceras_ir.backends.vta.dialect.operations:Vta",
}
"""Dialect name -> `module:attribute`."""

PASSES: dict[str, tuple[str, ...]] = {
    "ceras_ir.backends.c.passes": ("encode-weights",),
    "ceras_ir.backends.vta.passes": (
        "convert-graph-to-tile",
        "convert-tile-to-vta",
        "expand-tiles",
        "fold-packing",
        "im2col",
        "schedule-tiles",
        "space-to-depth",
        "tile",
    ),
    "ceras_ir.transforms.graph": (
        "eliminate-transposes",
        "fold-batch-norm",
        "fuse",
        "fuse-activation",
        "fuse-bias",
        "fuse-mean",
        "fuse-pad",
        "fuse-residual",
        "fuse-swish",
        "prune",
        "split-activation",
        "swish-to-hard-swish",
    ),
    "ceras_ir.transforms.memory": (
        "allocate-blocks",
        "print-liveness",
        "reorder-for-memory",
    ),
    "ceras_ir.transforms.placement": (
        "explain",
        "place",
    ),
    "ceras_ir.transforms.quantization": (
        "align-scales",
        "calibrate",
        "check-scales",
        "choose-forms",
        "choose-precision",
        "choose-recipe",
        "choose-row-exponents",
        "choose-weight-exponents",
        "choose-zero-points",
        "correct-bias",
        "drop-tie-breakers",
        "equalize-channels",
        "fit-functions",
        "fit-inputs",
        "fold-dequantized-constants",
        "fold-qdq",
        "hoist-quantize",
        "keep-heads-apart",
        "make-signed",
        "observe-ranges",
        "offer-forms",
        "prove-accumulators",
        "quantize",
        "quantize-graph",
        "round-weights",
        "set-precision",
        "set-recipe",
        "set-silu",
        "sink-dequantize",
        "snap-scales",
        "strip-border-quantization",
        "unfuse-residual",
    ),
}
"""Package -> names of its passes and pipelines, sorted."""

TARGETS: dict[str, str] = {
    "c": "ceras_ir.backends.c.target:CTarget",
    "onnx": "ceras_ir.backends.onnx.target:OnnxTarget",
}
"""Name of a text target of `ceras-opt -t` -> `module:class`."""


def pass_path(package: str, name: str) -> str:
    """`module:class` of the pass called `name` in `package`, by convention."""
    class_name = "".join(part.capitalize() for part in name.split("-")) + "Pass"
    return f"{package}.{name.replace('-', '_')}:{class_name}"


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


def _pass(package: str, name: str) -> Callable[[], type[ModulePass]]:
    def factory() -> type[ModulePass]:
        cls = load(pass_path(package, name))
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
    all_passes={name: _pass(package, name) for package, names in PASSES.items() for name in names},
    all_targets={name: _target(path) for name, path in TARGETS.items()},
)
