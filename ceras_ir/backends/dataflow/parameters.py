"""
What every block is as an instance: its module, its parameters, and the contents of its memories.

All numbers of a layer are parameters, and its tables and weights are files of hexadecimal words.
"""

from dataclasses import dataclass, field

from ceras_ir.backends.dataflow.blocks import (
    Addition,
    Block,
    Convolution,
    Feature,
    MaxPool,
    Scale,
    Table,
)
from ceras_ir.backends.dataflow.encoding import Encoding, delta_bits
from ceras_ir.backends.dataflow.plan import Plan, PlannedConvolution
from ceras_ir.backends.dataflow.window import bits, ceiling

Parameters = dict[str, int | str]


@dataclass(frozen=True)
class MemoryFile:
    """Words of a memory, and their width in bits."""

    words: list[int]
    width: int

    def text(self) -> str:
        """As `$readmemh` reads it."""
        digits = ceiling(self.width, 4)
        return "".join(f"{word:0{digits}x}\n" for word in self.words)


@dataclass
class Memories:
    """Files of words, by name."""

    files: dict[str, MemoryFile] = field(default_factory=dict[str, MemoryFile])

    def add(self, name: str, words: list[int], width: int) -> str:
        """The file's name as a parameter has it."""
        self.files[f"{name}.mem"] = MemoryFile(words, width)
        return f'"{name}.mem"'


def feature_parameters(feature: Feature) -> Parameters:
    """The size of a frame."""
    return {"ROWS": feature.rows, "CHANNELS": feature.channels, "COLUMNS": feature.columns}


def _scale(scale: Scale) -> Parameters:
    return {"SHIFT": scale.shift, "LOW": scale.low, "HIGH": scale.high}


def _vector(values: list[int], width: int) -> str:
    """A parameter of several numbers, the first in the lowest bits."""
    word = sum(value << width * n for n, value in enumerate(values))
    return f"{len(values) * width}'h{word:x}"


def block_parameters(
    block: Block, plan: Plan, name: str, memories: Memories
) -> tuple[str, Parameters]:
    """The module of a block and the parameters of its instance `name`."""
    match block:
        case Convolution():
            return "convolution", _convolution(plan.convolutions[block], plan, name, memories)
        case MaxPool():
            return "max_pool", _max_pool(block, name, memories)
        case Addition():
            a, b = block.terms
            capacity = plan.second(block)
            words = capacity * block.feature.channels
            return "addition", feature_parameters(block.feature) | {
                "CAPACITY": capacity,
                "ADDRESS_BITS": bits(words),
                "SUM_BITS": block.sum_bits,
                "FIRST_SHIFT": a.shift,
                "SECOND_SHIFT": b.shift,
                "FIRST_SIGN": a.sign,
                "SECOND_SIGN": b.sign,
                "CONSTANT": block.constant,
            } | _scale(block.scale)
        case Table():
            words = [int(v) & 255 for v in block.table]
            table = memories.add(f"{name}_table", words, 8)
            return "function_table", {"COLUMNS": block.feature.columns, "TABLE": table}
        case _:
            raise AssertionError(block)


def pool_windows(block: MaxPool) -> int:
    """Windows of a channel that can be open at once."""
    return min(block.feature.rows, ceiling(block.windows.kernel[0], block.windows.strides[0]))


def _max_pool(block: MaxPool, name: str, memories: Memories) -> Parameters:
    w, count = block.windows, pool_windows(block)
    words: list[int] = []
    for row in range(block.input.rows):
        takes = begins = ends = 0
        first = -1
        for window in range(block.feature.rows):
            start = w.strides[0] * window - w.before[0]
            inside = range(max(0, start), min(block.input.rows, start + w.kernel[0]))
            if row not in inside:
                continue
            place = 1 << window % count
            takes |= place
            begins |= place if row == inside[0] else 0
            if row == inside[-1]:
                ends |= place
                first = window if first < 0 else first
        first = max(first, 0)
        flags = takes << 2 * count | begins << count | ends
        words.append(flags << 24 | first % count << 16 | first)
    return feature_parameters(block.input) | {
        "OUT_COLUMNS": block.feature.columns,
        "KERNEL": w.kernel[1],
        "STRIDE": w.strides[1],
        "LEFT": w.before[1],
        "WINDOWS": count,
        "ROW_MAP": memories.add(f"{name}_rows", words, 3 * count + 24),
    }


def _convolution(
    planned: PlannedConvolution, plan: Plan, name: str, memories: Memories
) -> Parameters:
    layer, buffer, weights, lanes = planned.layer, planned.buffer, planned.weights, planned.lanes
    w, sparse = layer.windows, lanes.encoding.is_sparse
    uniform = int(layer.weights.flat[0]) if layer.uniform and not sparse else 0
    rows = [buffer.tap_row(j) for j in range(w.kernel[0])]
    columns = [buffer.tap_column(i) for i in range(w.kernel[1])]
    taps = [
        (address + phase) << buffer.rotation_bits + buffer.shift_bits
        | rotation << buffer.shift_bits
        | shift
        for address, rotation in rows
        for phase, shift in columns
    ]
    tap_bits = buffer.address_bits + buffer.rotation_bits + buffer.shift_bits
    row_bits = buffer.address_bits + buffer.rotation_bits
    column_bits = buffer.address_bits + buffer.shift_bits
    row_map = [
        slot << 24 | bank << 16 | at
        for slot, bank, at in map(buffer.row_place, range(buffer.padded_rows))
    ]
    files: Parameters = {
        "WEIGHTS": '""'
        if uniform
        else memories.add(f"{name}_weights", [*weights.words(buffer)], weights.width(buffer)),
        "BIASES": _biases(planned, name, memories),
        "ROW_MAP": memories.add(f"{name}_rows", row_map, 40),
    }
    out = layer.feature
    parameters: Parameters = feature_parameters(layer.input) | {
        "OUT_ROWS": out.rows,
        "OUT_CHANNELS": out.channels,
        "OUT_COLUMNS": out.columns,
        "KERNEL_ROWS": w.kernel[0],
        "KERNEL_COLUMNS": w.kernel[1],
        "GROUP_CHANNELS": layer.weights.shape[3],
        "GROUP_BLOCKS": max(1, weights.blocks // layer.groups),
        "BLOCKS": weights.blocks,
        "FILTERS": lanes.filters,
        "SPARSE": int(sparse),
        "DELTA_BITS": delta_bits(layer) if lanes.encoding is Encoding.DELTA else 0,
        "ENTRIES": weights.entries,
        "PAIRED": int(planned.is_paired),
        "PARTS": buffer.parts,
        "PART_WORDS": len(buffer.residues),
        "TOP": w.before[0],
        "PAD": layer.pad,
        "PADDED_ROWS": buffer.padded_rows,
        "SLOT_ROWS": buffer.slot_rows,
        "SLOTS": buffer.slots,
        "SLOT_WORDS": buffer.slot_words,
        "FRAME_SLOTS": buffer.frame_slots,
        "BANKS": buffer.banks,
        "STRIDE": w.strides[1],
        "PHASES": buffer.phases,
        "STARTS": _vector([start & (1 << 16) - 1 for start in buffer.starts], 16),
        "FIRST": buffer.columns.start,
        "STORED": len(buffer.columns),
        "ADDRESS_BITS": buffer.address_bits,
        "FIRST_ROWS": buffer.first_rows,
        "LAST_ROWS": buffer.last_rows,
        "GROUPS": buffer.groups,
        "ROTATION_BITS": buffer.rotation_bits,
        "SHIFT_BITS": buffer.shift_bits,
        "MOST_SHIFT": buffer.most_shift,
        "ROW_TABLE": _vector([a << buffer.rotation_bits | r for a, r in rows], row_bits),
        "TAP_TABLE": _vector(taps if lanes.encoding is Encoding.DELTA else [0], tap_bits),
        "COLUMN_TABLE": _vector([p << buffer.shift_bits | s for p, s in columns], column_bits),
        "WEIGHT_BITS": layer.weight_bits,
        "UNIFORM": uniform,
        "SUM_BITS": layer.sum_bits,
        "FURTHER_BITS": layer.further_bits,
    }
    if len(layer.inputs) > 1:
        capacity = plan.second(layer)
        parameters |= {
            "RESIDUAL": 1,
            "RESIDUAL_SHIFT": layer.residual_shift,
            "RESIDUAL_CAPACITY": capacity,
            "RESIDUAL_ADDRESS_BITS": bits(capacity * out.channels),
        }
    return parameters | _scale(layer.scale) | files


def _biases(planned: PlannedConvolution, name: str, memories: Memories) -> str:
    """The constants of filters that are computed at once: biases, each with its shift above it."""
    layer, filters = planned.layer, planned.lanes.filters
    size = layer.sum_bits + layer.further_bits
    constants = [int(b) & (1 << layer.sum_bits) - 1 for b in layer.bias]
    if layer.further is not None:
        pairs = zip(constants, layer.further.tolist(), strict=True)
        constants = [bias | further << layer.sum_bits for bias, further in pairs]
    words = [
        sum(constant << size * n for n, constant in enumerate(constants[start : start + filters]))
        for start in range(0, len(constants), filters)
    ]
    return memories.add(f"{name}_biases", words, filters * size)
