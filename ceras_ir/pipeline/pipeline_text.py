"""
Pipelines as text: `-p "a,b{x=1 y=2}"` and `--b="x=1 y=2"`, turned into passes to run.

`mlir-opt[...]` is given to xDSL as it is. The name of a removed pass is refused with its
replacement. `benchmarks/pass_benefits.py` writes the measured benefit of each pass and rule: the
network that is worse without it; `--help-pass` and `docs/passes.md` print it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from xdsl.passes import ModulePass

from ceras_ir.pipeline.pass_options import build, split_outside_quotes
from ceras_ir.support.diagnostics import UsageError, did_you_mean

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


def removed_passes() -> dict[str, str]:
    """Map the names of passes that were removed to what replaces them."""
    # Each command would import the options of quantization for this table.
    from ceras_ir.transforms.quantization_options import GONE

    return {
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
    if (instead := removed_passes().get(name)) is not None:
        raise UsageError(f"pass '{name}' is gone: {instead}")


PassTable = Mapping[str, Callable[[], type[ModulePass]]]


ANCHOR = "builtin.module("
"""What MLIR writes around a pipeline; all passes here run on modules."""


@dataclass(frozen=True)
class PassRequest:
    """A pass as the command line names it."""

    name: str
    options: str = ""
    nested: str | None = None
    """What stands in `mlir-opt[...]`."""


def parse_pipeline(text: str) -> list[PassRequest]:
    """The passes in `text`, for example `a,b{x=1 y=2},c`, or `builtin.module(a,b)`."""
    requests = list[PassRequest]()
    text = _on_module(text)
    for part in split_outside_quotes(text, ","):
        part = part.strip()
        name, brace, options = part.partition("{")
        bare, bracket, nested = part.partition("[")
        anchor, parenthesis, _ = part.partition("(")
        if parenthesis and not {"{", "["} & set(anchor):
            raise UsageError(
                f"'{anchor}(...)' in the pipeline '{text}': passes run on the whole module; write "
                "what is in the parentheses alone"
            )
        if not name:
            raise UsageError(f"empty pass name in the pipeline '{text}'")
        if brace and (not bracket or len(name) < len(bare)):
            if not options.endswith("}"):
                raise UsageError(f"missing '}}' in the pipeline '{text}'")
            requests.append(PassRequest(name.strip(), options[:-1]))
        elif bracket:
            if not nested.endswith("]"):
                raise UsageError(f"missing ']' in the pipeline '{text}'")
            requests.append(PassRequest(bare.strip(), nested=nested[:-1]))
        else:
            requests.append(PassRequest(part))
    return requests


def _on_module(text: str) -> str:
    """A pipeline without `builtin.module(...)` around it, which MLIR asks for."""
    stripped = text.strip()
    if not stripped.startswith(ANCHOR):
        return text
    if not stripped.endswith(")"):
        raise UsageError(f"missing ')' in the pipeline '{text}'")
    return stripped[len(ANCHOR) : -1]


def find_pass(name: str, passes: PassTable) -> type[ModulePass]:
    """The class of the pass called `name`."""
    if name not in passes:
        refuse_removed(name)
        raise UsageError(f"unknown pass '{name}'{did_you_mean(name, passes)}")
    return passes[name]()


def build_pipeline(requests: Sequence[PassRequest], passes: PassTable) -> list[ModulePass]:
    """An instance of each requested pass."""
    built = list[ModulePass]()
    for request in requests:
        cls = find_pass(request.name, passes)
        if request.nested is None:
            built.append(build(cls, request.options))
        else:
            from xdsl.utils.arg_spec import parse_spec

            built.append(cls.from_spec(parse_spec(f"{request.name}[{request.nested}]")))
    return built


BENEFITS = Path(__file__).with_name("pass_benefits.json")


@dataclass(frozen=True)
class Benefit:
    """What a network loses without a step."""

    changed: int
    """Builds in which the step changes the IR."""
    builds: int
    network: str
    """A network of `benchmarks/benefit_networks.py`; empty if none loses."""
    setting: str
    """Target, and `float` if the network is not quantized."""
    figure: str

    def text(self) -> str:
        """One sentence."""
        counted = f"Changes {self.changed} of {self.builds} builds."
        if not self.figure:
            return counted
        return f"{counted} Network `{self.network}` for {self.setting}: {self.figure}."

    def to_json(self) -> dict[str, int | str]:
        return asdict(self)


@cache
def benefits() -> dict[str, Benefit]:
    """Benefits by step, which is a pass or `pass{rule}`."""
    content = json.loads(BENEFITS.read_text(encoding="utf-8"))
    return {step: Benefit(**entry) for step, entry in content.items()}
