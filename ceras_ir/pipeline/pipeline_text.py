"""
Pipelines as text: `-p "a,b{x=1 y=2}"` and `--b="x=1 y=2"`, turned into passes to run.

`mlir-opt[...]` is handed to xDSL as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.pipeline.pass_options import build, split_outside_quotes
from ceras_ir.pipeline.removed_passes import refuse_removed
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.suggestions import did_you_mean

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
