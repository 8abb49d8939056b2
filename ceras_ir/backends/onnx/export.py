"""
From a module to an ONNX model, and from an exported model back to a network that the interpreter
runs.

The model has the nodes of the network in order, between its named ends.
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
from ceras_ir.backends.onnx.rules import rounds_otherwise, why_not
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

MODEL = "model.onnx"
"""The file that target onnx writes."""
GREATEST = 2**31 - 1
"""Bytes of a model in one file."""
NAMED = 5
"""How many nodes a note names."""


def export_model(
    module: ModuleOp, title: str, *, exact: bool = True, silent: bool = False
) -> onnx.ModelProto:
    """
    The network as a model called `title`; every operation that ONNX cannot say is refused by
    name, all at once, and those whose ties a re-import rounds otherwise are named on stderr unless
    `silent`.
    With `exact`, a small constant before QuantizeLinear makes it round half up.
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
    # A constant may be called as an output is: exporters name biases by their layers.
    builder.tensors.update(output_names(main))
    operations = Operations(builder, values, exact=exact)
    for op in ops:
        operations.write(op)
    outputs = list[onnx.ValueInfoProto]()
    ends = {info.name for info in inputs}
    for name, value in zip(output_names(main), result_values(main), strict=True):
        tensor = values.get(value, unchanged(value), side_of(value))
        _name_end(builder, tensor, name, value, ends)
        outputs.append(_info(name, value))
    if not silent:
        _note(ops)
    return builder.model(inputs, outputs)


def emit(module: ModuleOp, title: str) -> list[Artefact]:
    """The only file of target onnx."""
    data = serialized(export_model(module, title))

    def write(stream: BinaryIO) -> None:
        stream.write(data)

    return [Artefact(MODEL, "the network as an ONNX model, quantized values between Q/DQ", write)]


def serialized(model: onnx.ModelProto) -> bytes:
    """The bytes of an `.onnx` file."""
    if model.ByteSize() > GREATEST:
        raise InputError("the model would exceed 2 GB, which one ONNX file cannot hold")
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
    others = [node_name(op) for op in ops if rounds_otherwise(op)]
    if others:
        more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
        remark(
            f"onnx: note: imported again, ties of {', '.join(others[:NAMED])}{more} round "
            "otherwise than here; see docs/onnx-export.md"
        )


def _info(name: str, value: SSAValue) -> onnx.ValueInfoProto:
    dtype = graph.numpy_dtype(graph.element_of(value))
    return helper.make_tensor_value_info(name, tensor_kind(dtype), list(graph.shape_of(value)))


def _name_end(
    builder: ModelBuilder, tensor: str, name: str, value: SSAValue, ends: set[str]
) -> None:
    """Call the tensor by the output's name, or copy it where it has another one already."""
    made = any(tensor in node.output for node in builder.nodes)
    if made and tensor not in ends:
        builder.rename(tensor, name)
    else:
        dtype: np.dtype[np.generic] = graph.numpy_dtype(graph.element_of(value))
        copy = builder.node("Identity", [tensor], f"{name}/output", dtype, graph.shape_of(value))
        builder.rename(copy, name)
    ends.add(name)


class Reimported(Interpreted):
    """The model at `path`; its Q/DQ become integers again, its float sums `ordered`."""

    def __init__(self, path: Path):
        module = read_network(str(path))
        options = BuildOptions().resolved(module)
        if options.is_quantized:
            run_stages(load_context(), module, front_stages(options))
        else:
            # All that was chosen to be quantized may have been kept in float.
            FloatSumRule().apply(load_context(), module)
        super().__init__(module)

    def trace(self, sample: Sample, trace: Trace) -> None:
        """Nothing: its operations are others than the steps of what was exported."""


@dataclass(frozen=True)
class OnnxText(Target):
    """
    A binary ONNX file, for `-o FILE.onnx`; `title` names the network in it. With `exact=false`
    QuantizeLinear rounds ties as ONNX does, to even, and no constants tell it otherwise.
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
