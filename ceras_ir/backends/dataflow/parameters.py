"""
Derive the parameters of the modules of the library from blocks, and the contents of their memories.

Tables and weights are files of hexadecimal words.
"""

from dataclasses import dataclass, field

from ceras_ir.backends.dataflow.blocks import (
    Addition,
    Block,
    Concatenation,
    Convolution,
    Feature,
    FunctionTable,
    MaxPool,
    Repetition,
    Selection,
    SumScale,
)
from ceras_ir.backends.dataflow.plan import PipelinePlan, PlannedConvolution
from ceras_ir.backends.dataflow.storage import bits, ceiling
from ceras_ir.backends.dataflow.weights import WeightEncoding, delta_bits
from ceras_ir.dialects.quant import BYTE_BITS

ModuleParameters = dict[str, int | str]


@dataclass(frozen=True)
class MemoryFile:
    """The initial contents of a memory of the circuit: unsigned words of `width` bits."""

    words: list[int]
    width: int

    def text(self) -> str:
        """Return the text of the file that the Verilog task `$readmemh` loads."""
        digits = ceiling(self.width, 4)
        return "".join(f"{word:0{digits}x}\n" for word in self.words)


@dataclass
class Memories:
    """The files of memory contents of a project, by name."""

    files: dict[str, MemoryFile] = field(default_factory=dict[str, MemoryFile])

    def add(self, name: str, words: list[int], width: int) -> str:
        """
        Add the file `name.mem` with `words` of `width` bits. Return the name of the file as a
        string literal for a parameter of a module.
        """
        self.files[f"{name}.mem"] = MemoryFile(words, width)
        return f'"{name}.mem"'


def feature_parameters(feature: Feature) -> ModuleParameters:
    """Return the module parameters `ROWS`, `CHANNELS` and `COLUMNS` for the shape of a frame."""
    return {"ROWS": feature.rows, "CHANNELS": feature.channels, "COLUMNS": feature.columns}


def _scale(scale: SumScale) -> ModuleParameters:
    return {"SHIFT": scale.shift, "LOW": scale.low, "HIGH": scale.high, "TIES": scale.ties}


def _vector(values: list[int], width: int) -> str:
    # The first value has the least significant bits.
    word = sum(value << width * n for n, value in enumerate(values))
    return f"{len(values) * width}'h{word:x}"


def block_parameters(
    block: Block, plan: PipelinePlan, name: str, memories: Memories
) -> tuple[str, ModuleParameters]:
    """
    Return the name of the Verilog module that implements `block`, and the parameters of the
    instance `name`. Tables and weights are added to `memories`.
    """
    match block:
        case Convolution():
            return "convolution", _convolution(plan.convolutions[block], plan, name, memories)
        case MaxPool():
            return "max_pool", _max_pool(block, name, memories)
        case Addition():
            a, b = block.terms
            capacity = plan.ring_rows(block)
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
        case FunctionTable():
            return "function_table", _function_table(block, name, memories)
        case Concatenation():
            second, capacity = block.inputs[1].feature, plan.ring_rows(block)
            return "concatenation", {
                "ROWS": block.feature.rows,
                "FIRST_CHANNELS": block.input.channels,
                "SECOND_CHANNELS": second.channels,
                "COLUMNS": block.feature.columns,
                "SECOND_IS_LOWER": int(block.second_is_lower),
                "CAPACITY": capacity,
                "ADDRESS_BITS": bits(capacity * second.channels),
            }
        case Repetition():
            rows, columns = block.factors
            return "repetition", {
                "COLUMNS": block.input.columns,
                "ROW_FACTOR": rows,
                "COLUMN_FACTOR": columns,
            }
        case Selection():
            start, feature = block.start, block.feature
            return "selection", {
                "COLUMNS": block.input.columns,
                "ROW": start.rows,
                "OUT_ROWS": feature.rows,
                "CHANNEL": start.channels,
                "OUT_CHANNELS": feature.channels,
                "COLUMN": start.columns,
                "OUT_COLUMNS": feature.columns,
            }
        case _:
            raise AssertionError(block)


def _function_table(block: FunctionTable, name: str, memories: Memories) -> ModuleParameters:
    words = [int(v) & 255 for v in block.tables.reshape(-1)]
    parameters: ModuleParameters = {"COLUMNS": block.feature.columns}
    if len(block.tables) > 1:
        numbers = memories.add(f"{name}_numbers", list(block.numbers), bits(len(block.tables)))
        parameters["CHANNELS"] = block.feature.channels
        parameters |= {"TABLES": len(block.tables), "NUMBERS": numbers}
    return parameters | {"TABLE": memories.add(f"{name}_table", words, 8)}


def pool_windows(block: MaxPool) -> int:
    """
    Return the maximum number of output rows of a pooling that are in progress at the same time:
    windows that started but are not complete.
    """
    return min(block.feature.rows, ceiling(block.windows.kernel[0], block.windows.strides[0]))


def _max_pool(block: MaxPool, name: str, memories: Memories) -> ModuleParameters:
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
        **column_bits(block.feature),
        "LEFT": w.before[1],
        "WINDOWS": count,
        "ROW_MAP": memories.add(f"{name}_rows", words, 3 * count + 24),
    }


def _convolution(
    planned: PlannedConvolution, plan: PipelinePlan, name: str, memories: Memories
) -> ModuleParameters:
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
    row_map = [bank << 16 | at for bank, at in map(buffer.row_position, range(buffer.padded_rows))]
    files: ModuleParameters = {
        "WEIGHTS": '""'
        if uniform
        else memories.add(f"{name}_weights", [*weights.words(buffer)], weights.width(buffer)),
        "BIASES": _biases(planned, name, memories),
        "ROW_MAP": memories.add(f"{name}_rows", row_map, 24),
    }
    out = layer.feature
    parameters: ModuleParameters = feature_parameters(layer.input) | {
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
        "BY_ROW": int(planned.is_by_row),
        "DELTA_BITS": delta_bits(layer) if lanes.encoding is WeightEncoding.DELTA else 0,
        "ENTRIES": weights.entries,
        "PAIRED": planned.pairs.value,
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
        "REACH": w.reach[0],
        "ROW_STEP": w.dilations[0],
        "ROTATION_BITS": buffer.rotation_bits,
        "SHIFT_BITS": buffer.shift_bits,
        "MOST_SHIFT": buffer.max_shift,
        "ROW_TABLE": _vector([a << buffer.rotation_bits | r for a, r in rows], row_bits),
        "TAP_TABLE": _vector(taps if lanes.encoding is WeightEncoding.DELTA else [0], tap_bits),
        "COLUMN_TABLE": _vector([p << buffer.shift_bits | s for p, s in columns], column_bits),
        "WEIGHT_BITS": weights.weight_bits,
        **_narrow(planned, name, memories),
        "UNIFORM": uniform,
        "SUM_BITS": layer.sum_bits,
        "FURTHER_BITS": layer.further_bits,
    }
    if len(layer.inputs) > 1:
        capacity = plan.ring_rows(layer)
        parameters |= {
            "RESIDUAL": 1,
            "RESIDUAL_SHIFT": layer.residual_shift,
            "RESIDUAL_CAPACITY": capacity,
            "RESIDUAL_ADDRESS_BITS": bits(capacity * out.channels),
        }
    return parameters | _scale(layer.scale) | files


def column_bits(feature: Feature, parameter: str = "BITS") -> ModuleParameters:
    """Return the parameter for the bits of a column of `feature`, if they are not 8."""
    return {} if feature.bits == BYTE_BITS else {parameter: feature.bits}


def port_columns(feature: Feature) -> ModuleParameters:
    """Return the parameters of a port that converts between bytes and columns of `feature`."""
    column = feature.column
    flags = {"UNSIGNED": column.offset, "BIPOLAR": column.is_bipolar}
    return column_bits(feature) | {name: 1 for name, is_set in flags.items() if is_set}


def _narrow(planned: PlannedConvolution, name: str, memories: Memories) -> ModuleParameters:
    # The parameters that only layers with values of less than 8 bits have.
    layer = planned.layer
    flags = {"BIPOLAR": planned.weights.is_bipolar, "TABLES": planned.lanes.in_tables}
    found: ModuleParameters = {name: 1 for name, is_set in flags.items() if is_set}
    if planned.lanes.terms > 1:
        found["TERMS"] = planned.lanes.terms
    found |= column_bits(layer.input, "INPUT_BITS") | column_bits(layer.feature, "RESULT_BITS")
    if layer.limits is None:
        return found
    found["LIMITS"] = layer.limit_count
    if layer.limits.size:
        size = layer.sum_bits
        words = [sum(int(v) << size * n for n, v in enumerate(row)) for row in layer.limits]
        found["LIMIT_VALUES"] = memories.add(f"{name}_limits", words, size * len(layer.limits[0]))
    return found


def _biases(planned: PlannedConvolution, name: str, memories: Memories) -> str:
    # A word has the biases of the filters that are computed in parallel. The extra shift of a
    # filter is stored in the bits above the bias.
    layer, filters = planned.layer, planned.lanes.filters
    size = layer.sum_bits + layer.further_bits
    sums = layer.bias + planned.weights.carries()
    constants = [int(b) & (1 << layer.sum_bits) - 1 for b in sums]
    if layer.further is not None:
        pairs = zip(constants, layer.further.tolist(), strict=True)
        constants = [bias | further << layer.sum_bits for bias, further in pairs]
    words = [
        sum(constant << size * n for n, constant in enumerate(constants[start : start + filters]))
        for start in range(0, len(constants), filters)
    ]
    return memories.add(f"{name}_biases", words, filters * size)
