"""
Export a module as an ONNX model, and import an exported model again for the interpreter.

The model has the nodes of the network in the same order, with the names of inputs and outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np
import onnx
from onnx import helper
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.target import Target

from ceras_ir.backends.interp.target import Interpreted
from ceras_ir.backends.onnx.operations import Operations
from ceras_ir.backends.onnx.rules import rounds_differently, why_not
from ceras_ir.backends.onnx.values import ModelBuilder, Values, side_of, tensor_kind, unchanged
from ceras_ir.dialects import graph
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.function import input_names, main_function, output_names, result_values
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import front_stages, run_stages
from ceras_ir.support.diagnostics import (
    Finding,
    InputError,
    UnsupportedError,
    UsageError,
    node_name,
    remark,
)
from ceras_ir.targets.capabilities import Sample, Trace
from ceras_ir.transforms.quantization.quantize_graph import FloatSumRule

MODEL_FILE = "model.onnx"
MAX_MODEL_BYTES = 2**31 - 1
"""The limit of a protobuf file."""
MAX_NOTE_NODES = 5
"""The number of nodes that a note names."""


def export_model(
    module: ModuleOp, title: str, *, exact: bool = True, silent: bool = False
) -> onnx.ModelProto:
    """
    Return the network as a model with the name `title`.

    All operations without an ONNX form are refused together, by name. Unless `silent`, stderr names
    the nodes with ties that an import of the model rounds differently. With `exact`, a small
    constant before QuantizeLinear changes the rounding to half up.
    """
    main = main_function(module)
    ops = [op for op in main.body.block.ops if not isinstance(op, ReturnOp)]
    _refuse(ops)
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
        _note(ops)
    return builder.model(inputs, outputs)


def emit(module: ModuleOp, title: str) -> list[Artefact]:
    """Return the only file of target onnx."""
    data = serialized(export_model(module, title))

    def write(stream: BinaryIO) -> None:
        stream.write(data)

    description = "the network as an ONNX model, quantized values between Q/DQ"
    return [Artefact(MODEL_FILE, description, write)]


def serialized(model: onnx.ModelProto) -> bytes:
    """Return the bytes of an `.onnx` file."""
    if model.ByteSize() > MAX_MODEL_BYTES:
        raise InputError("the model exceeds 2 GB, the limit of an ONNX file; use target c")
    return model.SerializeToString(deterministic=True)


def _refuse(ops: list[Operation]) -> None:
    findings = [
        Finding(node_name(op), op.name, f"unsupported by target onnx: {reason}")
        for op in ops
        if (reason := why_not(op)) is not None
    ]
    if findings:
        raise UnsupportedError(findings)


def _note(ops: list[Operation]) -> None:
    names = [node_name(op) for op in ops if rounds_differently(op)]
    if names:
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
    """The interpreter of the model at `path`, with integers for Q/DQ and `ordered` float sums."""

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
        """Trace no values, because the operations differ from the exported network."""


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
