"""
Write a network as an nnet file.

The function `@main` consists of `graph` operations. All values except constants have a
`mem.block`, and operations of the FPGA have a `mem.device`. The writer refuses all operations
together that the format or the engine does not support.
"""

import struct
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import Float32Type, ModuleOp, i1, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ceras_ir.backends.nnet.encoding import (
    DEVICE_NUMBERS,
    MAX_RANK,
    NO_INDEX,
    STORAGE_NUMBERS,
    Section,
    Sections,
    TensorRecord,
    packed_bits,
)
from ceras_ir.backends.nnet.engine_rules import why_refused
from ceras_ir.backends.nnet.layers import encode
from ceras_ir.backends.nnet.rules import FPGA, why_not
from ceras_ir.dialects.graph import ConstantOp, UnaryOp, element_of, numpy_dtype, shape_of
from ceras_ir.dialects.mem import BlockAttr, arena_of, block_of, device_of
from ceras_ir.dialects.quant import UniformType
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.function import (
    input_names,
    main_function,
    output_names,
    result_values,
    states_of,
)
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError, node_name
from ceras_ir.transforms.memory.liveness import steps
from ceras_ir.transforms.memory.regions import refuse_regions

NNET_FILE = "model.nnet"


def emit(module: ModuleOp) -> list[Artefact]:
    """
    Return the nnet file of the network in `module`. Memory planning must have assigned an address
    to each value; otherwise an `InputError` lists the operations.
    """
    sections = _FileWriter(main_function(module)).sections_of_network()
    return [Artefact(NNET_FILE, "network for the nnet engine", sections.write)]


@dataclass
class _FileWriter:
    # Tensors, blocks, strings and tables are numbered in the order of their first use.
    main: FuncOp
    sections: Sections = field(default_factory=Sections)
    tensors: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    blocks: dict[BlockAttr, int] = field(default_factory=dict[BlockAttr, int])
    strings: dict[str, int] = field(default_factory=dict[str, int])
    tables: dict[bytes, int] = field(default_factory=dict[bytes, int])

    def sections_of_network(self) -> Sections:
        refuse_regions(self.main, "nnet")
        arena = arena_of(self.main)
        if arena is None:
            raise InputError("no 'mem.arena' on @main: run allocate-blocks with io=true first")
        self.string("")
        order = steps(self.main)
        self.refuse(order)
        states = states_of(self.main)
        inputs = zip(input_names(self.main), self.main.body.block.args, strict=True)
        outputs = zip(output_names(self.main), result_values(self.main), strict=True)
        for section, values, kept in (
            (Section.INPUTS, inputs, [(state.name, state.argument) for state in states]),
            (Section.OUTPUTS, outputs, [(state.result_name, state.result) for state in states]),
        ):
            kept_names = {name for name, _ in kept}
            for name, value in (*(v for v in values if v[0] not in kept_names), *kept):
                entry = struct.pack("<II", self.tensor(value), self.string(name))
                self.sections.tables[section] += entry
        for op in order:
            self.layer(op)
        self.sections.tables[Section.NETWORK] += struct.pack(
            "<QI5III", arena.size.data, arena.alignment.data, len(self.tensors), len(self.blocks),
            len(self.main.body.block.args), len(result_values(self.main)), len(order), len(states),
            0,
        )  # fmt: skip
        return self.sections

    def refuse(self, order: list[Operation]) -> None:
        unsupported: list[Finding] = []
        wrong: list[Finding] = []
        for op in order:
            if reason := why_not_written(op):
                unsupported.append(Finding(node_name(op), op.name, f"unsupported: {reason}"))
                continue
            for value in (*op.operands, *op.results):
                if not isinstance(value.owner, ConstantOp) and block_of(value) is None:
                    reason = "a value has no 'mem.block': run allocate-blocks with io=true first"
                    wrong.append(Finding(node_name(op), op.name, reason))
            device = device_of(op)
            reason = why_not(op) if device == FPGA else None
            if device not in DEVICE_NUMBERS:
                reason = f"nnet has no device {device}"
            if reason is not None:
                wrong.append(Finding(node_name(op), op.name, reason))
        if unsupported:
            raise UnsupportedError(list(dict.fromkeys(unsupported)))
        if wrong:
            raise InputError(list(dict.fromkeys(wrong)))

    def string(self, text: str) -> int:
        table = self.sections.tables[Section.STRINGS]
        if text not in self.strings:
            self.strings[text] = len(table)
            table += text.encode().replace(b"\0", b"?") + b"\0"
        return self.strings[text]

    def table(self, data: bytes) -> int:
        # The number counts units of 256 bytes.
        if data not in self.tables:
            self.tables[data] = len(self.sections.tables[Section.TABLES]) // 256
            self.sections.tables[Section.TABLES] += data
        return self.tables[data]

    def block(self, block: BlockAttr) -> int:
        if block not in self.blocks:
            self.blocks[block] = len(self.blocks)
            entry = struct.pack("<IIQQ", block.id.data, 0, block.offset.data, block.size.data)
            self.sections.tables[Section.BLOCKS] += entry
        return self.blocks[block]

    def tensor(self, value: SSAValue) -> int:
        if value in self.tensors:
            return self.tensors[value]
        element, shape = element_of(value), shape_of(value)
        dtype = numpy_dtype(element)
        owner = value.owner
        block, section, pitch, bits = NO_INDEX, None, 0, 0
        if isinstance(owner, ConstantOp):
            section = _section_of(dtype)
            offset, bits = self.sections.constants[section].add(owner), packed_bits(value)
        else:
            place = block_of(value)
            assert place is not None
            block, offset = self.block(place), place.offset.data
            pitch = place.pitch.data
        record = TensorRecord(
            name=self.string(node_name(owner) if isinstance(owner, Operation) else ""),
            storage=STORAGE_NUMBERS[dtype.name],
            shape=shape,
            scale=_scale_of(element),
            zero_point=element.zero_points.data[0].data if isinstance(element, UniformType) else 0,
            section=section,
            block=block,
            offset=offset,
            pitch=pitch,
            bits=bits,
        )
        self.sections.tables[Section.TENSORS] += record.pack()
        return self.tensors.setdefault(value, len(self.tensors))

    def layer(self, op: Operation) -> None:
        record = encode(op, self.table)
        assert record is not None
        record.name = self.string(node_name(op))
        record.device = DEVICE_NUMBERS[device_of(op)]
        numbers = [self.tensor(v) for v in op.operands]
        if record.requant is not None and record.requant.is_per_channel:
            # The multipliers follow the bias and precede the residual.
            array, element = (
                np.array(record.requant.multipliers, np.int32),
                UniformType(1.0, storage=i32),
            )
            multipliers = ConstantOp.from_array(array, element, location=op.location).result
            numbers.insert(len(numbers) - record.residual, self.tensor(multipliers))
        record.operands = numbers
        record.result = self.tensor(op.results[0])
        operands = self.sections.tables[Section.OPERANDS]
        attributes = self.sections.tables[Section.ATTRIBUTES]
        packed = record.pack(len(operands) // 4, len(attributes) // 4)
        self.sections.tables[Section.LAYERS] += packed
        operands += struct.pack(f"<{len(record.operands)}I", *record.operands)
        attributes += struct.pack(f"<{len(record.attributes)}I", *record.attributes)


FLOAT_REMEDY = "leave it to the application, or compile for target c"


def _scale_of(element: Attribute) -> float:
    if isinstance(element, UniformType):
        return max(scale.data for scale in element.scales)
    return 0.0 if isinstance(element, Float32Type) else 1.0


def _section_of(dtype: np.dtype[np.generic]) -> Section:
    if dtype == np.float32:
        return Section.FLOATS
    return Section.WEIGHTS if dtype.itemsize == 1 else Section.BIASES


def why_not_written(op: Operation) -> str | None:
    """
    Return the reason why the nnet format or the engine does not support `op`, or `None` if both do.
    """
    if reason := why_refused(op):
        return reason
    if isinstance(op, UnaryOp) and op.function.slopes is not None:
        return "the engine has no slopes per channel; run the pass separate-slopes first"
    record = encode(op, lambda _: 0)
    if record is None:
        return f"the nnet format has no such operation; {FLOAT_REMEDY}"
    values = (*op.operands, *op.results)
    reasons = (_unsupported_tensor(value, record.kind.all_storages) for value in values)
    return next((f"{reason}; {FLOAT_REMEDY}" for reason in reasons if reason is not None), None)


def _unsupported_tensor(value: SSAValue, all_storages: bool) -> str | None:
    element = element_of(value)
    if len(shape_of(value)) > MAX_RANK:
        return f"a tensor has rank {len(shape_of(value))}, at most {MAX_RANK} expected"
    if numpy_dtype(element).name not in STORAGE_NUMBERS:
        return f"a tensor is stored as {numpy_dtype(element).name}"
    if element in (i1, i64) and not all_storages:
        return f"the operation of the engine does not accept {element}"
    if isinstance(element, UniformType):
        if element.is_per_axis and not isinstance(value.owner, ConstantOp):
            return "a tensor has per-channel scales"
        if len({point.data for point in element.zero_points}) > 1:
            return "a tensor has per-channel zero points"
        with np.errstate(over="ignore", under="ignore"):
            for scale in (scale.data for scale in element.scales):
                if not 0.0 < np.float32(scale) < np.inf:
                    return f"scale {scale} exceeds the range of float32"
    return None
