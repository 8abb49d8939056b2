"""
Report the costs of a compiled network: `report.json`, and the table of `ceras-compile`.

The source of layers is the placed graph, in which each operation is an operation of the network.
The source of totals and buffers of memory is the final plan. The table has layers, reasons and
totals.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from ceras_ir.dialects.graph import (
    ConstantOp,
    GraphOperation,
    LinearOperation,
    RecurrenceOp,
    RequantizeOp,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.dialects.mem import (
    CONTINUES,
    COPIED,
    COST,
    REASON,
    LaunchOp,
    arena_of,
    block_of,
    device_of,
    regions_of,
)
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.network.function import input_names, main_function, output_names, result_values
from ceras_ir.network.storage import FLOAT_REASON, weight_type
from ceras_ir.pipeline.stages import BuildOptions, quantize_pass
from ceras_ir.pipeline.summary import summary
from ceras_ir.support.diagnostics import aligned, node_name
from ceras_ir.targets.capabilities import MICROSECONDS, ArenaBuffer
from ceras_ir.targets.protocol import Emission
from ceras_ir.transforms.memory.copies import bytes_copied_by, copied_bytes, fewest_copied_bytes
from ceras_ir.transforms.memory.liveness import analyse, byte_size, steps
from ceras_ir.transforms.memory.offsets import gap
from ceras_ir.transforms.memory.slices import slices_of_plan
from ceras_ir.transforms.quantization.analysis.function_forms import quantized_form

Entry = dict[str, object]


def holds_io(main: FuncOp) -> bool:
    """Return whether the arena of a memory plan includes the graph inputs and outputs."""
    return any(block_of(argument) is not None for argument in main.body.block.args)


def memory_totals(module: ModuleOp) -> Entry:
    """
    Return the entries of `totals` about memory, in bytes, and the number of requantizations at run
    time. Without a memory plan, return only the latter.
    """
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


def memory_plan(module: ModuleOp, added: Sequence[ArenaBuffer] = ()) -> Entry | None:
    """
    Return the entry `memory` of a report: the address, size and live range of each buffer in the
    arena. Return `None` without a plan. `added` are workspaces of the target, which are included in
    the sizes, but not in the lower bound.
    """
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
    regions = regions_of(main)
    sizes = {r.region.data: r.size.data for r in regions} or {"": arena.size.data}
    for buffer in added:
        sizes[buffer.region] = max(sizes[buffer.region], buffer.offset + buffer.size)
    plan: Entry = {
        "steps": len(steps(main)),
        "size": sum(sizes.values()),
        "value_bytes": arena.size.data,
        "lower_bound": liveness.lower_bound(arena.alignment.data),
        "buffers": buffers + [buffer.to_json() for buffer in added],
    }
    if regions:
        plan["regions"] = [
            {"name": r.region.data, "size": sizes[r.region.data], "capacity": r.capacity.data}
            for r in regions
        ]
    return plan


PRODUCTS = "products"
"""The form of a recurrent layer with integer products and float functions."""


@dataclass(frozen=True)
class LayerEntry:
    """The entry of an operation of the placed graph in `report.json`."""

    name: str
    op: str
    device: str
    reason: str | None
    macs: int
    bytes: int
    """The bytes of operands, including constants, and the result: the minimum traffic."""
    cost: str | None = None
    """The modelled time on each device, if it decided the placement."""
    form: str | None = None
    """The form of a quantized function, see `function_forms`; or `PRODUCTS`."""
    bits: int | None = None
    """The bits of the stored result; None for floats."""
    weight_bits: int | None = None
    """The bits of stored constant weights; None for floats."""
    weight_bytes: int | None = None
    """The bytes of these weights, packed or encoded as the target stores them."""
    float_reason: str | None = None
    """The reason why a layer is float that calibration could have quantized."""
    shape: tuple[int, ...] = ()
    """The shape of the result."""
    inputs: tuple[int | str, ...] = ()
    """The operands: layers by number, graph inputs by name."""

    def to_json(self) -> dict[str, object]:
        result: dict[str, object] = {
            "name": self.name,
            "op": self.op,
            "device": self.device,
            "macs": self.macs,
            "bytes": self.bytes,
        }
        more = {
            "form": self.form,
            "bits": self.bits,
            "weight_bits": self.weight_bits,
            "weight_bytes": self.weight_bytes,
            "reason": self.reason,
            "float_reason": self.float_reason,
            "modelled": self.cost,
            "shape": list(self.shape),
            "inputs": list(self.inputs),
        }
        return result | {key: known for key, known in more.items() if known is not None}


def spelling(op: Operation) -> str:
    """
    Return the operation and the kind as the table of layers prints them, such as `unary relu`.
    """
    return op.spelling if isinstance(op, GraphOperation) else op.name


def layers(placed: ModuleOp) -> list[LayerEntry]:
    """Return an entry for each operation of a placed graph (with devices), in execution order."""
    main = main_function(placed)
    sources = _sources(placed)
    result: list[LayerEntry] = []
    for op in steps(main):
        read = dict.fromkeys(sources[value] for value in op.operands if value in sources)
        result.append(
            LayerEntry(
                node_name(op),
                spelling(op),
                device_of(op),
                _text(op, REASON),
                op.macs if isinstance(op, GraphOperation) else 0,
                sum(map(_stored_bytes, {*op.operands, *op.results})),
                _text(op, COST),
                PRODUCTS if isinstance(op, RecurrenceOp) and op.is_integer else quantized_form(op),
                _bits(op),
                *_weights(op),
                _text(op, FLOAT_REASON),
                shape_of(op.results[0]) if op.results else (),
                tuple(read),
            )
        )
    return result


def entries_of(entries: Sequence[Entry], ops: Iterable[Operation]) -> Iterator[Entry | None]:
    """
    Yield the entry of the report for each operation, or `None`. Entries are found by the name of
    the layer and the kind of operation, because later passes may have changed the order.
    """
    return entries_by_key(entries, ((node_name(op), spelling(op)) for op in ops))


def entries_by_key(
    entries: Sequence[Entry], keys: Iterable[tuple[str, str]]
) -> Iterator[Entry | None]:
    """
    Yield the entry for each key (name of the layer, kind of operation), or `None` if it is missing.
    If a key occurs again, it gets the next entry with this key.
    """
    found: defaultdict[tuple[object, object], deque[Entry]] = defaultdict(deque)
    for entry in entries:
        found[entry["name"], entry["op"]].append(entry)
    for key in keys:
        waiting = found[key]
        yield waiting.popleft() if waiting else None


def results(placed: ModuleOp) -> dict[str, int | str]:
    """
    Map the name of each graph output to the number of the layer that computes it, or to the name of
    a graph input.
    """
    main, sources = main_function(placed), _sources(placed)
    outputs = zip(output_names(main), result_values(main), strict=True)
    return {name: sources[value] for name, value in outputs if value in sources}


def _sources(module: ModuleOp) -> dict[SSAValue, int | str]:
    main = main_function(module)
    found: dict[SSAValue, int | str] = {}
    found |= zip(main.body.block.args, input_names(main), strict=True)
    for number, op in enumerate(steps(main)):
        found |= dict.fromkeys(op.results, number)
    return found


def _text(op: Operation, name: str) -> str | None:
    known = op.attributes.get(name)
    return known.data if isinstance(known, StringAttr) else None


def _bits(op: Operation) -> int | None:
    element = quantized_element(op.results[0]) if op.results else None
    return None if element is None else element.storage.width.data


def _weights(op: Operation) -> tuple[int | None, int | None]:
    """Return the bits and the bytes of the integer constant weights of a layer, otherwise None."""
    if not isinstance(op, LinearOperation) or (element := weight_type(op)) is None:
        return None, None
    return element.width, _stored_bytes(op.weights)


def constants(module: ModuleOp) -> list[ConstantOp]:
    """Return each constant of the network, and of called functions, that has a consumer."""
    main = main_function(module)
    ops = (op for function in (main, *called_functions(main)) for op in function.body.block.ops)
    return [op for op in ops if isinstance(op, ConstantOp) and op.result.first_use]


def copies(module: ModuleOp) -> list[Entry]:
    """
    Return an entry for each operation of a placed module that only copies bytes: the name, the
    number of bytes, and the reason why a copy is necessary.
    """
    found: list[Entry] = []
    for op in steps(main_function(module)):
        if size := bytes_copied_by(op):
            reason = _text(op, COPIED) or "the target copies"
            found.append(
                {"name": node_name(op), "op": spelling(op), "bytes": size, "reason": reason}
            )
    return found


def report(
    module: ModuleOp,
    found: Sequence[LayerEntry],
    result_layers: dict[str, int | str],
    weight_bytes: int,
    emission: Emission,
    options: BuildOptions,
) -> dict[str, object]:
    """
    Return the content of `report.json` for a module at the last level. `found` are the entries of
    layers. `result_layers` maps each graph output to the number of the layer that computes it, or
    to the name of a graph input.
    """
    memory = memory_totals(module)
    totals: dict[str, object] = {
        "macs": sum(layer.macs for layer in found),
        "weight_bytes": weight_bytes,
        **memory,
    }
    if "peak_bytes" in memory:
        totals |= {"flash_bytes": weight_bytes, "sram_bytes": memory["peak_bytes"]}
    layers = [layer.to_json() for layer in found]
    if emission.annotate is not None:
        emission.annotate(layers)
    totals |= emission.totals
    content: Entry = {"layers": layers, "totals": totals, "results": result_layers}
    if emission.prediction is not None:
        content["prediction"] = prediction = emission.prediction.to_json(layers)
        totals["latency_us"] = prediction[MICROSECONDS]
    if (plan := memory_plan(module, emission.buffers)) is not None:
        content["memory"] = plan
    if moved := copies(module):
        content["copies"] = moved
    if (chosen := quantization(module, options)) is not None:
        content["quantization"] = chosen
    return {**content, **emission.details}


def quantization(module: ModuleOp, options: BuildOptions) -> dict[str, object] | None:
    """
    Return the entry `quantization` of a report: the passes that ran, signal-to-noise ratios in dB,
    and the number of requantizations at run time before and after scale alignment. Return `None`
    for a network that was not quantized.
    """
    from ceras_ir.transforms.quantization.analysis.output_noise import (
        alignment,
        stored_noise,
        weight_noise,
    )

    main = main_function(module)
    if (counts := alignment(main)) is None:
        return None
    names = {"before": "int8_noise_db", "after": "stored_noise_db", "measured": "measured_noise_db"}
    rounded = weight_noise(main)
    # JSON has no infinity, which is the ratio without noise.
    noise = {
        names[when]: ratio if isfinite(ratio) else None
        for when, ratio in stored_noise(main).items()
        if when in names
    }
    return {
        "recipe": list(quantize_pass(options).optional),
        **noise,
        **({} if rounded is None else {"weight_noise_db": rounded}),
        "requantizations_before": counts[0],
        "requantizations_after": counts[1],
    }


def weight_bytes(module: ModuleOp) -> int:
    """
    Return the bytes of all constants of the network as stored (for example compressed). Equal
    constants are counted once.
    """
    return sum({op.digest(): _stored_bytes(op.result) for op in constants(module)}.values())


def _stored_bytes(value: SSAValue) -> int:
    encoded = value.owner.encoded if isinstance(value.owner, ConstantOp) else None
    return byte_size(value) if encoded is None else encoded.nbytes


MAX_NAMED = 3
"""The largest number of layers that an explanation names."""

NAME_WIDTH = 40
"""The width of a name in the table; a longer name continues on the next line."""


def explanations(entries: Sequence[Entry]) -> list[str]:
    """
    Return lines that explain why layers are computed on the CPU or in float. Layers with the same
    reason share a line; the reason with most layers is first.
    """
    groups: dict[tuple[str, object], list[str]] = {}
    for entry in entries:
        # A layer that is float by choice is on the CPU for this reason.
        key = "float_reason" if "float_reason" in entry else "reason"
        if key in entry:
            where = f"{'in float ' if key == 'float_reason' else ''}on the {entry['device']}"
            groups.setdefault((where, entry[key]), []).append(str(entry["name"]))
    return [
        f"{_listed(names)} {where}: {reason}"
        for (where, reason), names in sorted(groups.items(), key=lambda group: -len(group[1]))
    ]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MAX_NAMED else f"{len(names)} layers"


def _narrow_weights(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield a line with layers and bytes by the width of weights, if any has less than 8 bits."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for entry in entries:
        bits, size = entry.get("weight_bits"), entry.get("weight_bytes")
        if isinstance(bits, int) and isinstance(size, int):
            found[bits].append(size)
    if found and min(found) < BYTE_BITS:
        parts = [
            f"{len(sizes)} of {bits} bits ({sum(sizes):,} bytes)"
            for bits, sizes in sorted(found.items())
        ]
        yield f"layers by width of weights: {', '.join(parts)}"


def table(content: Entry, target: str, emission: Emission | None) -> str:
    """
    Return the text that `ceras-compile` prints: the table of layers, and the summary. `content` is
    the report, and `target` the name. `emission` has the columns and lines of the target; without
    it they are missing.
    """
    emission = emission or Emission([])
    columns = emission.columns
    entries = content["layers"]
    assert isa(entries, list[Entry])
    shown = [key for key in columns if any(key in entry for entry in entries)]
    rows = [["layer", "operation", "on", "MACs", "bytes", *(columns[key][0] for key in shown)]]
    for entry in entries:
        text = str(entry["name"])
        name, *rest = (text[at : at + NAME_WIDTH] for at in range(0, len(text) or 1, NAME_WIDTH))
        rows.append(
            [
                name,
                f"{entry['op']} {entry.get('kernel', '')}".rstrip(),
                str(entry["device"]),
                f"{entry['macs']:,}" if entry["macs"] else "",
                f"{entry['bytes']:,}",
                *(columns[key][1].format(entry[key]) for key in shown if key in entry),
            ]
        )
        rows += [[text] for text in rest]
    lines = [f"compiled for {target}", *aligned(rows, right=range(3, len(rows[0])))]
    lines += [*emission.notes, *explanations(entries), *_narrow_weights(entries)]
    if isa(chosen := content.get("quantization"), Entry):
        if isinstance(noise := chosen.get("weight_noise_db"), float):
            lines.append(f"rounded weights: signal to noise {noise:.1f} dB at the outputs")
        lines.append(
            f"requantizations at run time: {chosen['requantizations_after']} "
            f"({chosen['requantizations_before']} before scale alignment)"
        )
    return "\n".join([*lines, *summary(content, emission.figures)])
