"""
What a compiled network costs: `report.json`.

Layers are read off the placed graph, where every operation still is one of the network's;
memory off the finished plan.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph import (
    ConstantOp,
    GraphOperation,
    RecurrenceOp,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.dialects.mem import COPIED, COST, REASON, device_of
from ceras_ir.network.function import input_names, main_function, output_names, result_values
from ceras_ir.network.precision import FLOAT_REASON
from ceras_ir.pipeline.memory_report import memory_plan, memory_totals
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.stages import quantize_pass
from ceras_ir.support.diagnostics import node_name
from ceras_ir.targets.protocol import Emission
from ceras_ir.transforms.memory.analysis.copies import bytes_copied_by
from ceras_ir.transforms.memory.analysis.liveness import byte_size, steps
from ceras_ir.transforms.quantization.analysis.function_forms import quantized_form

Entry = dict[str, object]

PRODUCTS = "products"
"""What is of integers in a recurrent layer, whose functions are float."""


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
    """
    Of a quantized function: what it is made of, see `function_forms`; of a recurrent layer
    `PRODUCTS`, if its products are of integers.
    """
    bits: int | None = None
    """Of the stored result; None where it is float."""
    float_reason: str | None = None
    """Of a layer that calibration could have quantized: why it is float."""
    shape: tuple[int, ...] = ()
    """Of the result."""
    inputs: tuple[int | str, ...] = ()
    """What it reads: layers by number, inputs of the network by name."""

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
            "reason": self.reason,
            "float_reason": self.float_reason,
            "modelled": self.cost,
            "shape": list(self.shape),
            "inputs": list(self.inputs),
        }
        return result | {key: known for key, known in more.items() if known is not None}


def spelling(op: Operation) -> str:
    """The operation and its kind, as the table prints it."""
    return op.spelling if isinstance(op, GraphOperation) else op.name


def _form(op: Operation) -> str | None:
    if isinstance(op, RecurrenceOp) and op.is_integer:
        return PRODUCTS
    return quantized_form(op)


def layers(placed: ModuleOp) -> list[Layer]:
    """The layers of a placed graph, in the order they run."""
    main = main_function(placed)
    sources = _sources(placed)
    result: list[Layer] = []
    for op in steps(main):
        read = dict.fromkeys(sources[value] for value in op.operands if value in sources)
        result.append(
            Layer(
                node_name(op),
                spelling(op),
                device_of(op),
                _text(op, REASON),
                op.macs if isinstance(op, GraphOperation) else 0,
                sum(map(_stored_bytes, {*op.operands, *op.results})),
                _text(op, COST),
                _form(op),
                _bits(op),
                _text(op, FLOAT_REASON),
                shape_of(op.results[0]) if op.results else (),
                tuple(read),
            )
        )
    return result


def entries_of(entries: Sequence[Entry], ops: Iterable[Operation]) -> Iterator[Entry | None]:
    """The report's entry of each operation, by name and kind: later passes may have moved it."""
    return entries_by_key(entries, ((node_name(op), spelling(op)) for op in ops))


def entries_by_key(
    entries: Sequence[Entry], keys: Iterable[tuple[str, str]]
) -> Iterator[Entry | None]:
    """The report's entry of each name and kind, the next one where some are called the same."""
    found: defaultdict[tuple[object, object], deque[Entry]] = defaultdict(deque)
    for entry in entries:
        found[entry["name"], entry["op"]].append(entry)
    for key in keys:
        waiting = found[key]
        yield waiting.popleft() if waiting else None


def results(placed: ModuleOp) -> dict[str, int | str]:
    """What each output of the network is: the number of a layer, or the name of an input."""
    main, sources = main_function(placed), _sources(placed)
    ends = zip(output_names(main), result_values(main), strict=True)
    return {name: sources[value] for name, value in ends if value in sources}


def _sources(module: ModuleOp) -> dict[SSAValue, int | str]:
    """What makes each value: the number of a layer, or the name of an input."""
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


def constants(module: ModuleOp) -> list[ConstantOp]:
    """Every constant of the network, and of what it calls, that some operation reads."""
    main = main_function(module)
    ops = (op for function in (main, *called_functions(main)) for op in function.body.block.ops)
    return [op for op in ops if isinstance(op, ConstantOp) and op.result.first_use]


def copies(module: ModuleOp) -> list[Entry]:
    """The operations that only move bytes in a placed module: how many, and why."""
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
    found: Sequence[Layer],
    ends: dict[str, int | str],
    weight_bytes: int,
    emission: Emission,
    options: BuildOptions,
) -> dict[str, object]:
    """The content of `report.json` for a module at its last level."""
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
    content: Entry = {"layers": layers, "totals": totals | emission.totals, "results": ends}
    if emission.prediction is not None:
        content["prediction"] = emission.prediction.to_json(layers)
    if (plan := memory_plan(module)) is not None:
        content["memory"] = plan
    if moved := copies(module):
        content["copies"] = moved
    if (chosen := quantization(module, options)) is not None:
        content["quantization"] = chosen
    return content


def quantization(module: ModuleOp, options: BuildOptions) -> dict[str, object] | None:
    """What quantized a float network, and how many rescalings at run time its alignment left."""
    from ceras_ir.transforms.quantization.analysis.before_after import alignment, stored_noise

    main = main_function(module)
    if (counts := alignment(main)) is None:
        return None
    names = {"before": "int8_noise_db", "after": "stored_noise_db", "measured": "measured_noise_db"}
    # JSON has no infinity, which no noise is.
    noise = {
        names[when]: ratio if isfinite(ratio) else None
        for when, ratio in stored_noise(main).items()
        if when in names
    }
    return {
        "recipe": list(quantize_pass(options).optional),
        **noise,
        "requantizations_before": counts[0],
        "requantizations_after": counts[1],
    }


def weight_bytes(module: ModuleOp) -> int:
    """Bytes of all constants that the network reads, as they are encoded; equal ones are one."""
    return sum({op.digest(): _stored_bytes(op.result) for op in constants(module)}.values())


def _stored_bytes(value: SSAValue) -> int:
    encoded = value.owner.encoded if isinstance(value.owner, ConstantOp) else None
    return byte_size(value) if encoded is None else encoded.nbytes
