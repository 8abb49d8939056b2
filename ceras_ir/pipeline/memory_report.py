"""What a report says of memory: totals, and every buffer of the plan."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ceras_ir.dialects.graph import ConstantOp, RequantizeOp
from ceras_ir.dialects.mem import CONTINUES, LaunchOp, arena_of, block_of, device_of, regions_of
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import node_name
from ceras_ir.transforms.memory.analysis.copies import copied_bytes, fewest_copied_bytes
from ceras_ir.transforms.memory.analysis.liveness import analyse, steps
from ceras_ir.transforms.memory.analysis.slices import slices_of_plan
from ceras_ir.transforms.memory.analysis.spans import gap

Entry = dict[str, object]


def holds_io(main: FuncOp) -> bool:
    """Whether the arena of a plan also has the network's arguments and results."""
    return any(block_of(argument) is not None for argument in main.body.block.args)


def memory_totals(module: ModuleOp) -> Entry:
    """Bytes of a module whose values have been placed; without a plan only what is rescaled."""
    main = main_function(module)
    arena, ops = arena_of(main), steps(main)
    requantizations = sum(isinstance(op, RequantizeOp) for op in ops)
    if arena is None:
        return {"requantizations": requantizations}
    bound = analyse(main, include_io=holds_io(main), slicing=slices_of_plan(main)).lower_bound(
        arena.alignment.data
    )
    totals: Entry = {
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
    if launches := sum(isinstance(op, LaunchOp) and CONTINUES not in op.attributes for op in ops):
        totals["launches"] = launches
    return totals


def memory_plan(module: ModuleOp) -> Entry | None:
    """Every buffer with its bytes and the steps it lives in; None where nothing was placed."""
    main = main_function(module)
    arena = arena_of(main)
    if arena is None:
        return None
    liveness = analyse(main, include_io=holds_io(main), slicing=slices_of_plan(main))
    buffers: list[Entry] = []
    for buffer in liveness.buffers:
        block = block_of(buffer.values[0])
        if block is None:
            continue
        owners = [v.owner for v in buffer.values if isinstance(v.owner, Operation)]
        is_constant = all(isinstance(owner, ConstantOp) for owner in owners)
        buffers.append(
            {
                "name": " = ".join(map(node_name, owners)) or "input",
                "device": "" if is_constant else device_of(owners[0]),
                "region": block.region.data,
                "offset": block.offset.data,
                "size": buffer.size,
                "first_step": buffer.lower,
                "end_step": buffer.upper,
            }
        )
    plan: Entry = {
        "steps": len(steps(main)),
        "size": arena.size.data,
        "lower_bound": liveness.lower_bound(arena.alignment.data),
        "buffers": buffers,
    }
    if regions := regions_of(main):
        plan["regions"] = [
            {"name": r.region.data, "size": r.size.data, "capacity": r.capacity.data}
            for r in regions
        ]
    return plan
