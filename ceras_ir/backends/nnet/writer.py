"""
Write a network as an nnet file.

The module has `@main` of `graph` operations, a block for every value that is not a constant
and `mem.device` where the FPGA runs an operation. What the format or the engine cannot hold is
refused, all of it at once; nothing is decided here that an earlier pass should have decided.
"""

import struct
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects.builtin import Float32Type, ModuleOp, i1, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ceras_ir.backends.nnet.encoding import (
    DEVICES,
    MAX_RANK,
    NONE,
    STORAGES,
    Section,
    Sections,
    TensorRecord,
)
from ceras_ir.backends.nnet.engine_rules import why_refused
from ceras_ir.backends.nnet.layers import encode
from ceras_ir.backends.nnet.rules import FPGA, why_not
from ceras_ir.dialects.graph import ConstantOp, element_of, numpy_dtype, shape_of
from ceras_ir.dialects.mem import BlockAttr, arena_of, block_of, device_of
from ceras_ir.dialects.quant import RequantAttr, UniformType
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

MODEL = "model.nnet"


def emit(module: ModuleOp) -> list[Artefact]:
    """The file of a network whose values have places in memory."""
    sections = _FileWriter(main_function(module)).sections_of_network()
    return [Artefact(MODEL, "network for the nnet engine", sections.write)]


@dataclass
class _FileWriter:
    """Numbers tensors, blocks, strings and tables in the order they are met."""

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
        for section, ends, kept in (
            (Section.INPUTS, inputs, [(state.name, state.argument) for state in states]),
            (Section.OUTPUTS, outputs, [(state.result_name, state.result) for state in states]),
        ):
            own = {name for name, _ in kept}
            for name, value in (*(end for end in ends if end[0] not in own), *kept):
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
        """Refuse everything that cannot be written, all of it at once."""
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
            if device not in DEVICES:
                reason = f"nnet has no device {device}"
            if reason is not None:
                wrong.append(Finding(node_name(op), op.name, reason))
        if unsupported:
            raise UnsupportedError(list(dict.fromkeys(unsupported)))
        if wrong:
            raise InputError(list(dict.fromkeys(wrong)))

    def string(self, text: str) -> int:
        """The offset of a text, stored once."""
        table = self.sections.tables[Section.STRINGS]
        if text not in self.strings:
            self.strings[text] = len(table)
            table += text.encode().replace(b"\0", b"?") + b"\0"
        return self.strings[text]

    def table(self, data: bytes) -> int:
        """The number of the first 256 bytes of a lookup table, stored once."""
        if data not in self.tables:
            self.tables[data] = len(self.sections.tables[Section.TABLES]) // 256
            self.sections.tables[Section.TABLES] += data
        return self.tables[data]

    def block(self, block: BlockAttr) -> int:
        """The number of a block in the block table."""
        if block not in self.blocks:
            self.blocks[block] = len(self.blocks)
            entry = struct.pack("<IIQQ", block.id.data, 0, block.offset.data, block.size.data)
            self.sections.tables[Section.BLOCKS] += entry
        return self.blocks[block]

    def tensor(self, value: SSAValue) -> int:
        """The number of a value in the tensor table."""
        if value in self.tensors:
            return self.tensors[value]
        element, shape = element_of(value), shape_of(value)
        dtype = numpy_dtype(element)
        owner = value.owner
        block, section, pitch = NONE, None, 0
        if isinstance(owner, ConstantOp):
            section = _section_of(dtype)
            offset = self.sections.constants[section].add(owner, prod(shape) * dtype.itemsize)
        else:
            place = block_of(value)
            assert place is not None
            block, offset = self.block(place), place.offset.data
            pitch = place.pitch.data
        record = TensorRecord(
            name=self.string(node_name(owner) if isinstance(owner, Operation) else ""),
            storage=STORAGES[dtype.name],
            shape=shape,
            scale=_scale_of(element),
            zero_point=element.zero_points.data[0].data if isinstance(element, UniformType) else 0,
            section=section,
            block=block,
            offset=offset,
            pitch=pitch,
        )
        self.sections.tables[Section.TENSORS] += record.pack()
        return self.tensors.setdefault(value, len(self.tensors))

    def multipliers(self, op: Operation, requant: RequantAttr) -> SSAValue:
        """The multipliers of the output channels as a constant of the file."""
        array = np.array(requant.multipliers, np.int32)
        return ConstantOp.from_array(
            array, UniformType(1.0, storage=i32), location=op.location
        ).result

    def layer(self, op: Operation) -> None:
        record = encode(op, self.table)
        assert record is not None
        record.name = self.string(node_name(op))
        record.device = DEVICES[device_of(op)]
        numbers = [self.tensor(v) for v in op.operands]
        if record.requant is not None and record.requant.is_per_channel:
            # After the bias; a residual stays last.
            multipliers = self.tensor(self.multipliers(op, record.requant))
            numbers.insert(len(numbers) - record.residual, multipliers)
        record.operands = numbers
        record.result = self.tensor(op.results[0])
        operands = self.sections.tables[Section.OPERANDS]
        attributes = self.sections.tables[Section.ATTRIBUTES]
        packed = record.pack(len(operands) // 4, len(attributes) // 4)
        self.sections.tables[Section.LAYERS] += packed
        operands += struct.pack(f"<{len(record.operands)}I", *record.operands)
        attributes += struct.pack(f"<{len(record.attributes)}I", *record.attributes)


WAY_OUT = "leave it to the application, or compile for target c"
"""For what the format cannot hold."""


def _scale_of(element: Attribute) -> float:
    """The scale of the record: of several the greatest, 1 of plain integers, 0 of floats."""
    if isinstance(element, UniformType):
        return max(scale.data for scale in element.scales)
    return 0.0 if isinstance(element, Float32Type) else 1.0


def _section_of(dtype: np.dtype[np.generic]) -> Section:
    if dtype == np.float32:
        return Section.FLOATS
    return Section.WEIGHTS if dtype.itemsize == 1 else Section.BIASES


def why_not_written(op: Operation) -> str | None:
    """Why the format or the engine cannot hold an operation, or None."""
    if reason := why_refused(op):
        return reason
    record = encode(op, lambda _: 0)
    if record is None:
        return f"the nnet format has no such operation; {WAY_OUT}"
    values = (*op.operands, *op.results)
    reasons = (unsupported_tensor(value, record.kind.all_storages) for value in values)
    return next((f"{reason}; {WAY_OUT}" for reason in reasons if reason is not None), None)


def unsupported_tensor(value: SSAValue, all_storages: bool) -> str | None:
    """Why a layer, of a kind with `all_storages` or not, cannot have a tensor, or None."""
    element = element_of(value)
    if len(shape_of(value)) > MAX_RANK:
        return f"a tensor has rank {len(shape_of(value))}, at most {MAX_RANK} expected"
    if numpy_dtype(element).name not in STORAGES:
        return f"a tensor is stored as {numpy_dtype(element).name}"
    if element in (i1, i64) and not all_storages:
        return f"the engine's operation takes no {element}"
    if isinstance(element, UniformType):
        if element.is_per_axis and not isinstance(value.owner, ConstantOp):
            return "a tensor has one scale per channel"
        if len({point.data for point in element.zero_points}) > 1:
            return "a tensor has one zero point per channel"
        with np.errstate(over="ignore", under="ignore"):
            for scale in (scale.data for scale in element.scales):
                if not 0.0 < np.float32(scale) < np.inf:
                    return f"scale {scale} is no float32"
    return None
