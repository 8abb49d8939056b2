"""
What this project adds to xDSL: names of dialects, passes and targets, and where they live.

Nothing is imported until it is asked for, so that a tool pays only for what it uses. The
pass `fold-affine` is the class `FoldAffinePass` in `transforms/graph/fold_affine.py`:
to add one, write the file and add its name here. What belongs to a target stands in its class.
`xdsl.universe` in `pyproject.toml` points at `CERAS_UNIVERSE`, which is how `ceras-opt` and plain
`xdsl-opt` both find it all.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.target import Target as TextTarget

from ceras_ir.targets.protocol import Target, by_convention
from ceras_ir.targets.registry import all_targets

DIALECTS = {
    "graph": "ceras_ir.dialects.graph:Graph",
    "mem": "ceras_ir.dialects.mem:Mem",
    "quant": "ceras_ir.dialects.quant:Quant",
    "sparse": "ceras_ir.dialects.sparse:Sparse",
}
"""Dialect name -> `module:attribute`."""

PASSES: dict[str, tuple[str, ...]] = {
    "ceras_ir.transforms.graph": (
        "distribute-concat",
        "eliminate-transposes",
        "fold-affine",
        "fold-identities",
        "fuse",
        "fuse-branches",
        "fuse-epilogues",
        "fuse-functions",
        "fuse-windows",
        "split-affine",
        "split-phases",
        "swish-to-hard-swish",
        "take-images",
    ),
    "ceras_ir.transforms.memory": (
        "allocate-blocks",
        "check-blocks",
        "clear-plan",
        "print-liveness",
        "reorder-for-memory",
    ),
    "ceras_ir.transforms.placement": (
        "check-operations",
        "explain",
        "place",
    ),
    "ceras_ir.transforms.pruning": ("prune",),
    "ceras_ir.transforms.quantization": (
        "align-scales",
        "calibrate",
        "check-outputs",
        "check-scales",
        "choose-precision",
        "choose-row-exponents",
        "choose-weight-exponents",
        "choose-zero-points",
        "equalize-channels",
        "fit-functions",
        "fit-inputs",
        "fold-factor",
        "fold-qdq",
        "keep-in-float",
        "level-rows",
        "observe-ranges",
        "prove-accumulators",
        "quantize",
        "quantize-graph",
        "round-weights",
        "set-functions",
        "set-precision",
        "snap-scales",
        "split-residual",
        "split-wide",
        "strip-border-quantization",
        "tabulate-pixels",
        "unfuse-residual",
    ),
}
"""Package -> names of its passes and pipelines, sorted; those of targets are theirs."""


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


def _pass(name: str, path: str) -> Callable[[], type[ModulePass]]:
    def factory() -> type[ModulePass]:
        cls = load(path)
        assert isinstance(cls, type) and issubclass(cls, ModulePass), name
        assert cls.name == name, f"{cls} is named {cls.name}, expected {name}"
        return cls

    return factory


def _text(path: str) -> Callable[[], type[TextTarget]]:
    def factory() -> type[TextTarget]:
        cls = load(path)
        assert isinstance(cls, type) and issubclass(cls, TextTarget), path
        return cls

    return factory


def universe_of(target: type[Target]) -> Universe:
    """What a target brings along."""
    return _universe(target.dialects, target.passes, [target])


def dialect_paths() -> dict[str, str]:
    """Every dialect -> `module:attribute`, those of installed targets too."""
    paths = dict(DIALECTS)
    for target in all_targets():
        paths |= target.dialects
    return paths


def pass_paths() -> dict[str, str]:
    """Every pass -> `module:class`, those of installed targets too."""
    paths: dict[str, str] = {}
    for package, names in PASSES.items():
        paths |= by_convention(package, *names)
    for target in all_targets():
        paths |= target.passes
    return paths


def _universe(
    dialects: Mapping[str, str], passes: Mapping[str, str], targets: Sequence[type[Target]]
) -> Universe:
    return Universe(
        all_dialects={name: _dialect(path) for name, path in dialects.items()},
        all_passes={name: _pass(name, path) for name, path in passes.items()},
        all_targets={t.name: _text(t.text) for t in targets if t.text is not None},
    )


CERAS_UNIVERSE = _universe(dialect_paths(), pass_paths(), all_targets())
