"""Keep chosen layers of a calibrated network in 16 bits, or in float."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain, product
from typing import TypeVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.function import input_names
from ceras_ir.network.quantizable import (
    data_operands,
    is_quantized,
    joins,
    keeps_scale,
    quantized_operations,
)
from ceras_ir.network.storage import WIDE, keep_with_function_in_float, widen, width
from ceras_ir.support.diagnostics import UsageError, did_you_mean, node_name, node_names
from ceras_ir.transforms.network_pass import NetworkPass
from ceras_ir.transforms.quantization.analysis.qdq import COMES_QUANTIZED
from ceras_ir.transforms.quantization.analysis.scale_classes import is_constant
from ceras_ir.transforms.quantization.options import LayerOptions

Thing = TypeVar("Thing", Operation, SSAValue)


@dataclass(frozen=True)
class SetPrecisionPass(LayerOptions, NetworkPass):
    """
    Write `graph.precision` on the layers that `int16` and `float` name.

    Both options take node names of the model, with `*`, `?` and `[...]` as in file names. If both
    name a layer, it is computed in float, and what is quantized reads it in 16 bits. A value that
    is moved but not computed, by a maximum pooling or a reshape, keeps its operand's width. Changes
    no value.
    """

    name = "set-precision"

    def change(self, main: FuncOp) -> None:
        if is_quantized(main):
            if self.int16 or self.float:
                raise UsageError(f"int16 and float: {COMES_QUANTIZED}")
            return
        operations = [
            o
            for o in main.body.block.ops
            if isinstance(o, graph.GraphOperation) and not isinstance(o, graph.ConstantOp)
        ]
        names: dict[Operation, list[str]] = {o: node_names(o) or [node_name(o)] for o in operations}
        for operation in _matching(names, self.float, "float"):
            keep_with_function_in_float(operation, "the option float names it")
        self._widen(main, names)
        spread(main)

    def _widen(self, main: FuncOp, names: dict[Operation, list[str]]) -> None:
        arguments = dict(zip(main.body.block.args, input_names(main), strict=True))
        known: dict[SSAValue, list[str]] = {o.results[0]: found for o, found in names.items()}
        known |= {argument: [name] for argument, name in arguments.items()}
        chosen = _matching(known, self.int16, "int16")
        storable = stored_values(main)
        for pattern in self.int16:
            matched = [v for v in chosen if is_named(known[v], [pattern])]
            if not any(v in storable for v in matched):
                raise UsageError(f"layer '{pattern}' has no quantized form: it stays float")
        for value in chosen:
            # What has 16 bits already has a scale for them.
            if value in storable and width(value) != WIDE:
                widen(value)


def stored_values(main: FuncOp) -> set[SSAValue]:
    """What has integers: arguments, results of quantized operations, and what those read."""
    found: set[SSAValue] = set(main.body.block.args)
    for op in quantized_operations(main):
        found |= {op.results[0], *(v for v in data_operands(op) if not is_constant(v))}
    return found


def is_named(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is one of the names, or matches it."""
    return any(n == p or fnmatchcase(n, p) for n, p in product(names, patterns))


def _matching(names: dict[Thing, list[str]], patterns: Iterable[str], option: str) -> list[Thing]:
    """What the patterns name; one that names nothing is an error."""
    found: dict[Thing, None] = {}
    for pattern in patterns:
        matched = [thing for thing, known in names.items() if is_named(known, [pattern])]
        if not matched:
            hint = did_you_mean(pattern, chain(*names.values())) or "; ceras-opt --fuse shows names"
            raise UsageError(f"{option}: no layer is named '{pattern}'{hint}")
        found |= dict.fromkeys(matched)
    return list(found)


def spread(main: FuncOp) -> None:
    """Give operand and result of what only moves elements one width, the wider."""
    movers = [op for op in quantized_operations(main) if keeps_scale(op) and not joins(op)]
    changed = True
    while changed:
        changed = False
        for op in (*movers, *reversed(movers)):
            ends = (op.operands[0], op.results[0])
            if width(ends[0]) == width(ends[1]) or isinstance(ends[0].owner, graph.ConstantOp):
                continue
            for value in ends:
                widen(value)
            changed = True
