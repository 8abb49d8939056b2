"""
What a compiled network costs: `report.json`, and the short table of it on stdout.

Layers are read off the placed graph, where every operation still is one of the network's;
memory off the finished plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from ceras_ir.dialects.graph import (
    ConstantOp,
    EncodedMatmulOp,
    GraphOperation,
    RequantizeOp,
    constant_array,
)
from ceras_ir.dialects.mem import (
    COPIED,
    COST,
    REASON,
    LaunchOp,
    arena_of,
    block_of,
    device_of,
    regions_of,
)
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import node_name
from ceras_ir.support.text_table import aligned
from ceras_ir.transforms.memory.analysis.copies import (
    bytes_copied_by,
    copied_bytes,
    fewest_copied_bytes,
)
from ceras_ir.transforms.memory.analysis.liveness import analyse, byte_size, steps
from ceras_ir.transforms.memory.analysis.slices import slices_of_plan
from ceras_ir.transforms.memory.analysis.spans import gap
from ceras_ir.transforms.quantization.analysis.function_forms import quantized_form

if TYPE_CHECKING:
    from ceras_ir.backends.c.sizes import Footprint

MAX_NAMED = 3
"""Up to so many layers share a line of the table's explanations by name."""

NAME_WIDTH = 40
"""Characters of a name in a line of the table; what is longer goes on in the next."""


@dataclass(frozen=True)
class Layer:
    """One operation of the placed graph."""

    name: str
    op: str
    device: str
    reason: str | None
    macs: int
    bytes: int
    """Operands, constants included, and result: what one inference moves at least once."""
    cost: str | None = None
    """What each device would take, where that decided."""
    form: str | None = None
    """Of a quantized function: what it is made of, see `function_forms`."""

    def to_json(self) -> dict[str, object]:
        result: dict[str, object] = {
            "name": self.name,
            "op": self.op,
            "device": self.device,
            "macs": self.macs,
            "bytes": self.bytes,
        }
        texts = {"form": self.form, "reason": self.reason, "modelled": self.cost}
        return result | {key: text for key, text in texts.items() if text is not None}


def spelling(op: Operation) -> str:
    """The operation and its kind, as the table prints it."""
    return op.spelling if isinstance(op, GraphOperation) else op.name


def layers(placed: ModuleOp) -> list[Layer]:
    """The layers of a placed graph, in the order they run."""
    result: list[Layer] = []
    for op in steps(main_function(placed)):
        reason, cost = op.attributes.get(REASON), op.attributes.get(COST)
        result.append(
            Layer(
                node_name(op),
                spelling(op),
                device_of(op).value,
                reason.data if isinstance(reason, StringAttr) else None,
                op.macs if isinstance(op, GraphOperation) else 0,
                sum(map(byte_size, {*op.operands, *op.results})),
                cost.data if isinstance(cost, StringAttr) else None,
                quantized_form(op),
            )
        )
    return result


def constants(module: ModuleOp) -> list[SSAValue]:
    """Every constant of the network that some operation reads."""
    ops = main_function(module).body.block.ops
    return [op.result for op in ops if isinstance(op, ConstantOp) and op.result.first_use]


def memory_totals(module: ModuleOp, *, include_io: bool) -> dict[str, object]:
    """Bytes of a module whose values have been placed; without a plan only what is rescaled."""
    main = main_function(module)
    arena, ops = arena_of(main), steps(main)
    requantizations = sum(isinstance(op, RequantizeOp) for op in ops)
    if arena is None:
        return {"requantizations": requantizations}
    bound = analyse(main, include_io=include_io, slicing=slices_of_plan(main)).lower_bound(
        arena.alignment.data
    )
    totals: dict[str, object] = {
        "peak_bytes": arena.size.data,
        "lower_bound_bytes": bound,
        "gap_percent": round(100 * gap(arena.size.data, bound), 2),
        "blocks": len({block.id.data for op in ops for r in op.results if (block := block_of(r))}),
        "copied_bytes": copied_bytes(main),
        "copied_bytes_minimum": fewest_copied_bytes(main),
        "requantizations": requantizations,
    }
    if regions := regions_of(main):
        totals["regions"] = {
            r.region.data: {"peak_bytes": r.size.data, "capacity_bytes": r.capacity.data}
            for r in regions
        }
    if launches := sum(isinstance(op, LaunchOp) for op in ops):
        totals["launches"] = launches
    return totals


def copies(module: ModuleOp) -> list[dict[str, object]]:
    """The operations that only move bytes in a placed module: how many, and why."""
    found: list[dict[str, object]] = []
    for op in steps(main_function(module)):
        if size := bytes_copied_by(op):
            why = op.attributes.get(COPIED)
            reason = why.data if isinstance(why, StringAttr) else "the target copies"
            found.append(
                {"name": node_name(op), "op": spelling(op), "bytes": size, "reason": reason}
            )
    return found


def report(
    found: Sequence[Layer],
    weight_bytes: int,
    memory: dict[str, object],
    footprint: "Footprint | None" = None,
) -> dict[str, object]:
    """The content of `report.json`; `footprint` is the model's on a microcontroller board."""
    totals: dict[str, object] = {
        "macs": sum(layer.macs for layer in found),
        "weight_bytes": weight_bytes,
        **memory,
    }
    if "peak_bytes" in memory:
        totals["flash_bytes"] = weight_bytes
        totals["sram_bytes"] = memory.get("arena_bytes", memory["peak_bytes"])
    entries = [layer.to_json() for layer in found]
    if footprint is not None:
        totals |= footprint.to_json()
        for entry, size in zip(entries, footprint.layers, strict=True):
            entry |= {"flash_bytes": size.flash, "sram_bytes": size.sram}
            if size.kernel:
                entry["kernel"] = size.kernel
    return {"layers": entries, "totals": totals}


def quantization(module: ModuleOp) -> dict[str, object] | None:
    """What `--quantize` chose, and how many rescalings at run time its alignment left."""
    from ceras_ir.transforms.quantization.analysis.requantizations import alignment
    from ceras_ir.transforms.quantization.rewrites.recipes import recipe_of
    from ceras_ir.transforms.quantization.set_silu import chosen_silu

    main = main_function(module)
    counts = alignment(main)
    if counts is None:
        return None
    return {
        "recipe": recipe_of(main) or "plain",
        "silu": chosen_silu(main),
        "requantizations_before": counts[0],
        "requantizations_after": counts[1],
    }


def weight_bytes(module: ModuleOp) -> int:
    """Bytes of all constants that the network reads, as they are encoded."""
    return sum(map(_stored_bytes, constants(module)))


def _stored_bytes(value: SSAValue) -> int:
    from ceras_ir.network.weight_encoding import weight_bytes

    for use in value.uses:
        op = use.operation
        if isinstance(op, EncodedMatmulOp) and op.weights is value:
            array = constant_array(value)
            assert array is not None
            return weight_bytes(op.kind, array)
    return byte_size(value)


def explanations(found: Sequence[Layer]) -> list[str]:
    """Why layers are not on the accelerator: a line per reason, most frequent first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for layer in found:
        if layer.reason is not None:
            groups.setdefault((layer.device, layer.reason), []).append(layer.name)
    return [
        f"{_listed(names)} on the {device}: {reason}"
        for (device, reason), names in sorted(groups.items(), key=lambda group: -len(group[1]))
    ]


def _listed(names: Sequence[str]) -> str:
    """Few layers by name, many by number; `report.json` has the reason of every layer."""
    return ", ".join(names) if len(names) <= MAX_NAMED else f"{len(names)} layers"


def print_table(
    found: Sequence[Layer],
    content: dict[str, object],
    target: str,
    footprint: "Footprint | None" = None,
) -> None:
    """The layers that matter and the totals, on stdout."""
    headers = ["layer", "operation", "on", "MACs", "bytes"]
    if footprint is not None:
        headers += ["flash", "SRAM"]
    entries = content["layers"]
    assert isa(entries, list[dict[str, object]])
    if modelled := any("cycles" in entry for entry in entries):
        headers += ["cycles", "of peak"]
    rows = [headers]
    for i, layer in enumerate(found):
        starts = range(0, len(layer.name) or 1, NAME_WIDTH)
        name, *rest = (layer.name[at : at + NAME_WIDTH] for at in starts)
        row = [
            name,
            layer.op,
            layer.device,
            f"{layer.macs:,}" if layer.macs else "",
            f"{layer.bytes:,}",
        ]
        if footprint is not None:
            size = footprint.layers[i]
            row[1] = f"{layer.op} {size.kernel}".rstrip()
            row += [f"{size.flash:,}", f"{size.sram:,}"]
        if modelled and "cycles" in (entry := entries[i]):
            row += [f"{entry['cycles']:,}", f"{entry['share_of_peak']:.1%}"]
        rows += [row, *([text] for text in rest)]
    lines = [f"compiled for {target}", *aligned(rows, right=range(3, len(headers)))]
    if footprint is not None:
        lines += [text for text in (footprint.line(), footprint.width_line()) if text]
    lines += explanations(found)
    totals = content["totals"]
    assert isa(totals, dict[str, object])
    words = ", ".join(
        f"{name.replace('_', ' ')} {value:,}"
        for name, value in totals.items()
        if isinstance(value, int | float)
    )
    if isa(chosen := content.get("quantization"), dict[str, object]):
        lines.append(
            f"quantized by recipe {chosen['recipe']}: {chosen['requantizations_before']} "
            "requantizations at run time before scales were aligned, "
            f"{chosen['requantizations_after']} after"
        )
    print("\n".join([*lines, f"total: {words}"]))
