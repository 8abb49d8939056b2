"""
Export a module as an ONNX model, and import an exported model again for the interpreter.

The model has the nodes of the network in the same order, with the names of inputs and outputs.
`why_not` returns the reason why an operation has no equal ONNX form. `rounds_differently` returns
whether the form is equal except for ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np
import onnx
from onnx import helper
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, i32, i64
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.target import Target

from ceras_ir.backends.interp.target import Interpreted
from ceras_ir.backends.onnx.functions import has_operator, is_only_for_shifts
from ceras_ir.backends.onnx.movement import rounds_to_even
from ceras_ir.backends.onnx.operations import Operations
from ceras_ir.backends.onnx.values import ModelBuilder, Values, side_of, tensor_kind, unchanged
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.lookup import FUNCTION
from ceras_ir.dialects.graph.operation import NO_KERNELS, is_tensor
from ceras_ir.dialects.quant import BYTE_BITS, RequantAttr, Rounding
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.function import input_names, main_function, output_names, result_values
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.support.diagnostics import (
    InputError,
    UsageError,
    node_name,
    refuse_unsupported,
    remark,
)
from ceras_ir.targets.capabilities import Sample, Trace
from ceras_ir.transforms.quantization.analysis.qdq import scaling_factors, stored_types
from ceras_ir.transforms.quantization.analysis.rescaling import (
    INPUT_EXPONENTS,
    exponents_of,
    fixed_point,
    lookup_table,
    only_shifts,
    rows_of_table,
)
from ceras_ir.transforms.quantization.integer_forms import addend_multipliers
from ceras_ir.transforms.quantization.quantize_graph import FloatSumRule

MAX_FACTOR_ERROR = 2.0**-20
"""
The maximum relative difference between the factor of a requantization (multiplier and shift) and
the factor that the scales give.
"""
MAX_AVERAGE_ERROR = 2.0**-14
"""
The same limit for averages. Their factors have fewer bits, because windows in the padding have
larger factors.
"""
POWER_TYPES = (f32, i32, i64)
"""The element types for which ONNX has the operator Pow."""
MIN_REQUANT_FACTOR, MAX_REQUANT_FACTOR = 2.0**-31, 2.0**30
"""Factors outside these bounds reduce an accumulator to 0, or saturate it. Shifts are limited."""
EXPORTED = (
    graph.Conv2dOp | graph.MatmulOp | graph.BinaryOp | graph.Pool2dOp | graph.RequantizeOp
    | graph.UnaryOp | graph.SoftmaxOp | graph.ReshapeOp | graph.NormalizeOp | graph.TakeOp
    | graph.TransposeOp | graph.ConcatOp | graph.ResizeOp | graph.SliceOp | graph.GatherOp
    | graph.PadOp | graph.ReduceOp | graph.ArgOp | graph.TopKOp | graph.CompareOp | graph.SelectOp
    | graph.CastOp | graph.ConstantOp | graph.QuantizeOp | graph.ScaledQuantizeOp
    | graph.DequantizeOp
)  # fmt: skip


def why_not(op: Operation) -> str | None:
    """
    Return the reason why no ONNX nodes compute the same as `op`, or `None` if some do. A different
    result for ties is no reason; see `rounds_differently`.
    """
    if isinstance(op, graph.GraphOperation) and op.has_kernel_form:
        return NO_KERNELS
    match op:
        case graph.LinearOperation() if op.weight_scale is not None:
            return "ONNX has no product of floats and int8 weights; do not run encode-weights"
        case graph.LinearOperation() if op.table is not None:
            return "ONNX has no table after a convolution or product; do not run fuse-lookup"
        case graph.ShiftSwishOp():
            return "ONNX has no swish that consists of shifts; quantize it with a table"
        case graph.LookupOp() if op.has_pixel_input:
            if graph.quantized_element(op.output) is None:
                return "in ONNX, tables of pixels must have integer results"
        case graph.LookupOp():
            return _table_reason(op)
        case graph.BinaryOp() if op.function is graph.Binary.POW and not is_only_for_shifts(op):
            if (element := graph.element_of(op.result)) not in POWER_TYPES:
                return f"ONNX has no power of {element}; use int32, or target c"
        case graph.IntegerSoftmaxOp() | graph.IntegerNormalizeOp():
            return "ONNX has no softmax or normalization of integers; quantize with --rows float"
        case graph.QuantizeOp() | graph.ScaledQuantizeOp() if (
            graph.stored_element(op.output).storage.width.data > 16
        ):
            return "QuantizeLinear requires results of 8 or 16 bits, got 32"
        case graph.CallingOperation() | graph.ExtractOp():
            return (
                "a loop that is too long to unroll, or a branch with such a loop, cannot be "
                "exported; use fewer steps, or another target"
            )
        case _ if isinstance(op, EXPORTED):
            pass
        case graph.GraphOperation():
            return "the export of this operation is not implemented; use target c"
        case _:
            return "the operation is not of the graph level; export before it is created"
    for attribute in (*op.properties.values(), *op.attributes.values()):
        if isinstance(attribute, graph.FunctionAttr) and not has_operator(attribute):
            return f"ONNX has no function {attribute.data}"
    for value in (*op.operands, *op.results):
        element = graph.quantized_element(value) if is_tensor(value.type) else None
        if element is not None and any(not _is_normal(s.data) for s in element.scales):
            return f"a scale of {element} is no normal float32 number"
    if (requant := _requant(op)) is not None:
        if requant.zero_point.data != graph.stored_element(op.output).zero_point:
            return "the zero point of the requantization differs from that of the result"
        limit = MAX_AVERAGE_ERROR if isinstance(op, graph.Pool2dOp) else MAX_FACTOR_ERROR
        for actual, expected in scaling_factors(op, requant):
            if not _agree(actual, expected, limit) and not _is_nearest(op, requant):
                return f"the requantization has the factor {actual:.8g}, the scales {expected:.8g}"
    return None


def rounds_differently(op: Operation) -> bool:
    """
    Return whether the rounding of ties changes if this compiler imports the exported model again:
    the import (`fold-qdq`) chooses a rounding for each operation, which can differ from that of
    `op`.
    """
    requant = _requant(op)
    if requant is None or (requant.shift.data == 0):
        return False
    is_narrow = graph.stored_element(op.results[0]).width < BYTE_BITS
    if is_narrow and all(m.bit_count() == 1 for m in requant.multipliers):
        return requant.mode is not Rounding.HALF_EVEN
    chosen = Rounding.HALF_EVEN
    if isinstance(op, graph.LinearOperation) or only_shifts(stored_types(op)):
        chosen = Rounding.HALF_UP
    elif isinstance(op, graph.BinaryOp) and not any(e.zero_point for e in stored_types(op)):
        sides = [_scale(op, 0) / _scale_of(op), _scale(op, 1) / _scale_of(op)]
        if op.function is not graph.Binary.MUL and all(np.frexp(s)[0] == 0.5 for s in sides):
            chosen = Rounding.HALF_UP
    return requant.mode is not chosen


def _table_reason(op: graph.LookupOp) -> str | None:
    function = op.attributes.get(FUNCTION)
    if not isinstance(function, graph.FunctionAttr):
        return f"ONNX has no tables, and there is no attribute {FUNCTION} with the function"
    source, target = graph.quantized_element(op.input), graph.stored_element(op.output)
    assert source is not None
    exponents, channels = exponents_of(op), graph.shape_of(op.result)[-1:]
    if op.channel_rows is not None and exponents is None:
        return f"channels have different tables, and there is no attribute {INPUT_EXPONENTS}"
    if exponents is not None and op.channel_rows is None:
        return f"there is an attribute {INPUT_EXPONENTS}, but only a single table"
    entries = op.tables.shape[1]
    if exponents is None:
        is_equal = lookup_table(function, source, target, entries) == op.table
        return None if is_equal else _table_refusal(function)
    if any(len(e) != channels[0] for e in exponents):
        return f"{channels[0]} exponents expected, got {len(exponents[0])} and {len(exponents[1])}"
    rows = rows_of_table(function, exponents)
    for row in dict.fromkeys(rows):
        wanted = lookup_table(function, source, target, entries, [row])
        found = zip(op.channel_rows or (), rows, strict=True)
        if any(op.tables[r].tobytes() != wanted.data.data for r, other in found if other == row):
            return _table_refusal(function)
    return None


def _table_refusal(function: graph.FunctionAttr) -> str:
    return f"the table differs from the function {function.data.value} for these scales"


def _requant(op: Operation) -> RequantAttr | None:
    attribute = op.properties.get("requant")
    return attribute if isinstance(attribute, RequantAttr) else None


def _scale(op: Operation, operand: int) -> float:
    return graph.scale_of(op.operands[operand])


def _scale_of(op: Operation) -> float:
    return graph.scale_of(op.results[0])


def _agree(actual: float, expected: float, limit: float) -> bool:
    if min(actual, expected) >= MAX_REQUANT_FACTOR or max(actual, expected) <= MIN_REQUANT_FACTOR:
        return True
    return abs(actual - expected) <= limit * expected


def _is_nearest(op: Operation, requant: RequantAttr) -> bool:
    # Multipliers and shift can be the best approximation of the factors, although channels with
    # small factors have large relative errors: all channels share the shift.
    if isinstance(op, graph.BinaryOp) and op.function is not graph.Binary.MUL:
        *sides, target = stored_types(op)
        multipliers, shift = addend_multipliers(sides, target)
        return op.factors == multipliers and requant.shift.data == shift
    wanted = fixed_point([expected for _, expected in scaling_factors(op, requant)])
    return isinstance(op, graph.LinearOperation) and wanted == (
        requant.multipliers,
        requant.shift.data,
    )


def _is_normal(scale: float) -> bool:
    return float(np.finfo(np.float32).tiny) <= scale <= float(np.finfo(np.float32).max)


MODEL_FILE = "model.onnx"
MAX_MODEL_BYTES = 2**31 - 1
"""The maximum size of a protobuf file."""
MAX_NOTE_NODES = 5
"""The maximum number of nodes that the note on stderr names."""


def export_model(
    module: ModuleOp, title: str, *, exact: bool = True, silent: bool = False
) -> onnx.ModelProto:
    """
    Return the network as an ONNX model with the name `title`. Raise an `UnsupportedError` that
    lists all operations without an ONNX form.

    With `exact`, a small constant is added before each QuantizeLinear that must round half up,
    because QuantizeLinear rounds half to even. Other ties can still differ: if this compiler
    imports the model again, some nodes round half up instead of half to even, or vice versa. A note
    on stderr lists these nodes, unless `silent`. With `exact`, metadata of the model list the
    quantizations after layers that round half to even.
    """
    main = main_function(module)
    ops = [op for op in main.body.block.ops if not isinstance(op, ReturnOp)]
    refuse_unsupported(ops, why_not, "onnx")
    builder = ModelBuilder(title)
    values = Values(builder)
    inputs = list[onnx.ValueInfoProto]()
    for name, argument in zip(input_names(main), main.body.block.args, strict=True):
        builder.tensors.add(name)
        inputs.append(_info(name, argument))
        values.define(argument, name, unchanged(argument), side_of(argument))
    # A constant can have the name of an output: exporters name biases after layers.
    builder.tensors.update(output_names(main))
    operations = Operations(builder, values, exact=exact)
    for op in ops:
        operations.write(op)
    outputs = list[onnx.ValueInfoProto]()
    named = {info.name for info in inputs}
    for name, value in zip(output_names(main), result_values(main), strict=True):
        tensor = values.get(value, unchanged(value), side_of(value))
        _name_output(builder, tensor, name, value, named)
        outputs.append(_info(name, value))
    if not silent:
        _note([op for op in ops if not (exact and rounds_to_even(op))])
    return builder.model(inputs, outputs)


def emit(module: ModuleOp, title: str) -> list[Artefact]:
    """Return the file `model.onnx` of target onnx; the model has the name `title`."""
    data = serialized(export_model(module, title))

    def write(stream: BinaryIO) -> None:
        stream.write(data)

    description = "the network as an ONNX model, quantized values between Q/DQ"
    return [Artefact(MODEL_FILE, description, write)]


def serialized(model: onnx.ModelProto) -> bytes:
    """Return the bytes of the `.onnx` file. An `InputError` is raised if they exceed 2 GB."""
    if model.ByteSize() > MAX_MODEL_BYTES:
        raise InputError("the model exceeds 2 GB, the limit of an ONNX file; use target c")
    return model.SerializeToString(deterministic=True)


def _note(ops: list[Operation]) -> None:
    if names := [node_name(op) for op in ops if rounds_differently(op)]:
        listed, more = ", ".join(names[:MAX_NOTE_NODES]), len(names) - MAX_NOTE_NODES
        remark(
            f"onnx: note: an import of the model rounds ties of {listed}"
            f"{f' and {more} more' if more > 0 else ''} differently; see docs/onnx-export.md"
        )


def _info(name: str, value: SSAValue) -> onnx.ValueInfoProto:
    dtype = graph.numpy_dtype(graph.element_of(value))
    return helper.make_tensor_value_info(name, tensor_kind(dtype), list(graph.shape_of(value)))


def _name_output(
    builder: ModelBuilder, tensor: str, name: str, value: SSAValue, named: set[str]
) -> None:
    # A tensor that is an input, a constant or another output is copied.
    is_result = any(tensor in node.output for node in builder.nodes)
    if not is_result or tensor in named:
        dtype: np.dtype[np.generic] = graph.numpy_dtype(graph.element_of(value))
        tensor = builder.node("Identity", [tensor], f"{name}/output", dtype, graph.shape_of(value))
    builder.rename(tensor, name)
    named.add(name)


class Reimported(Interpreted):
    """
    Imports the exported model at `path` again, and interprets it, to check the export. Quantized
    operations are computed in integers, and float sums in the fixed order of this compiler.
    """

    def __init__(self, path: Path):
        module = read_network(str(path))
        options = BuildOptions().resolved(module)
        if options.is_quantized:
            run_stages(load_context(), module, front_stages(options))
        else:
            # The quantized network can be entirely in float.
            FloatSumRule().apply(load_context(), module)
        super().__init__(module)

    def trace(self, sample: Sample, trace: Trace) -> None:
        """
        Call `trace` for no value, because the operations differ from those of the exported network.
        """


@dataclass(frozen=True)
class OnnxText(Target):
    """
    Write a binary ONNX file, for `-o FILE.onnx`. `title` is the name of the network in the file.
    With `exact=false`, no constants change the rounding of QuantizeLinear, which is half to even.
    """

    name = "onnx"

    title: str = "main"
    exact: bool = True

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        if output.isatty():
            raise UsageError("-t onnx writes a binary file: add -o FILE.onnx")
        data = serialized(export_model(module, self.title, exact=self.exact))
        output.flush()
        with open(output.fileno(), "wb", closefd=False) as stream:
            stream.write(data)
