"""
The values of a network in several memories: bytes moved, what is said of a plan, and why there
is none.

Traffic is what operations read and write: each operand once per operation that reads it and
each result once. A reshape moves nothing.
"""

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ceras_ir.dialects.graph.attributes import viewed
from ceras_ir.network.function import input_names
from ceras_ir.support.diagnostics import InputError, node_name, printable
from ceras_ir.transforms.memory.analysis.liveness import Buffer, Liveness, byte_size, steps
from ceras_ir.transforms.memory.analysis.region_search import (
    RegionPlan,
    least_capacity,
    plan_regions,
)
from ceras_ir.transforms.memory.analysis.regions import Region
from ceras_ir.transforms.memory.analysis.spans import gap


def traffic_of(main: FuncOp, liveness: Liveness) -> list[int]:
    """Bytes that one inference reads from and writes to each buffer."""
    moved = {id(buffer): 0 for buffer in liveness.buffers}
    for op in steps(main):
        if (source := viewed(op)) is not None:
            buffer = liveness.by_value.get(source)
            if buffer is not None and buffer is liveness.by_value.get(op.results[0]):
                continue
        for value in (*dict.fromkeys(op.operands), *op.results):
            if (buffer := liveness.by_value.get(value)) is not None:
                moved[id(buffer)] += byte_size(value)
    return [moved[id(buffer)] for buffer in liveness.buffers]


def plan_in_regions(
    main: FuncOp, liveness: Liveness, regions: Sequence[Region], alignment: int
) -> RegionPlan:
    """A plan in which no region holds more than it has; an error says what is missing."""
    capacities = [region.capacity for region in regions]
    traffic = traffic_of(main, liveness)
    plan = plan_regions(liveness.spans, traffic, capacities, alignment)
    if plan is None:
        raise InputError(_why_not(main, liveness, regions, alignment))
    return plan


def describe_regions(regions: Sequence[Region], plan: RegionPlan) -> list[str]:
    """A line for each region, and one on how much more the first could carry."""
    places, traffic = plan.choice.places, plan.choice.traffic
    total = max(sum(traffic), 1)
    lines: list[str] = []
    for i, (region, own) in enumerate(zip(regions, plan.plans, strict=True)):
        count = places.count(i)
        noun = "buffer" if count == 1 else "buffers"
        line = (
            f"region {region.name}: peak {own.peak:,} of {region.capacity:,} bytes, lower bound "
            f"{own.bound:,}, gap {gap(own.peak, own.bound):.2%}; {count} {noun}, "
            f"traffic {traffic[i]:,} bytes ({traffic[i] / total:.1%})"
        )
        if region.bytes_per_us is not None:
            line += f", {traffic[i] / region.bytes_per_us:,.1f} us"
        lines.append(line)
    if plan.choice.proven:
        lines.append(f"no plan has more traffic in {regions[0].name}")
    elif plan.bound is not None:
        lines.append(f"no plan has more than {plan.bound[0]:,} bytes of it in {regions[0].name}")
    return lines


def _why_not(main: FuncOp, liveness: Liveness, regions: Sequence[Region], alignment: int) -> str:
    """The largest region, what it would have to hold, and what is so large."""
    capacities = [region.capacity for region in regions]
    largest = max(range(len(regions)), key=lambda i: (capacities[i], i))
    region = regions[largest]
    needed = least_capacity(liveness.spans, capacities, largest, alignment)
    text = f"region '{region.name}' of {region.capacity:,} bytes is too small: "
    if needed > capacities[largest] // alignment * alignment:
        text += f"it needs at least {needed:,} bytes"
    else:
        text += f"bytes alive need {needed:,}, but no offsets were found with which they fit"
    if len(regions) > 1:
        text += ", with as much as fits in " + ", ".join(
            f"'{other.name}' ({other.capacity:,})" for other in regions if other is not region
        )
    if not (order := steps(main)):
        return text

    def alive(step: int) -> list[Buffer]:
        return [b for b in liveness.buffers if b.lower <= step < b.upper]

    busiest = max(range(len(order)), key=lambda step: sum(b.size for b in alive(step)))
    top = sorted(alive(busiest), key=lambda b: -b.size)[:3]
    values = ", ".join(f"'{_name(main, b)}' ({b.size:,} bytes)" for b in top)
    where = printable(node_name(order[busiest]), 200)
    return f"{text}; the largest values alive at '{where}': {values}"


def _name(main: FuncOp, buffer: Buffer) -> str:
    owner = buffer.values[0].owner
    if isinstance(owner, Operation):
        return printable(node_name(owner), 200)
    return printable(input_names(main)[main.body.block.args.index(buffer.values[0])], 200)
