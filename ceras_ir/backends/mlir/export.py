"""
Export a network as MLIR in upstream dialects (func, arith, math, tensor, linalg, scf).

The function `main` has the inputs and outputs of the network in order, as tensors of stored
elements. Each operation has the location of the operation of the graph. The last of them has an
attribute `ceras`, a dictionary of the name, the properties and the attributes of the operation and
of the quantized type of the result. Attributes of other dialects than builtin are strings, because
upstream tools cannot parse them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    Builtin,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa
from xdsl.utils.str_enum import StrEnum

from ceras_ir.backends.mlir.network import Network, tensor_of
from ceras_ir.backends.mlir.operations import build, why_not
from ceras_ir.backends.mlir.tensors import Tensors
from ceras_ir.dialects import graph
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.function import (
    input_names,
    main_function,
    output_names,
    result_values,
)
from ceras_ir.pipeline.printing import MAX_LISTED, print_module
from ceras_ir.support.diagnostics import refuse_unsupported

MODEL_FILE = "model.mlir"
ATTRIBUTE = "ceras"
"""The name of the attribute that holds the properties of an operation of the graph."""
BUILTIN = {each.name for each in Builtin.attributes}
OPERATION, TYPE = "operation", "type"
"""The keys of the name of the operation, and of the type of the result if it is quantized."""


def export_module(module: ModuleOp) -> FuncOp:
    """
    Return the network of `module` in upstream dialects, as a new function. `module` is not changed.
    If operations cannot be exported, an error lists all of them by name.
    """
    main = main_function(module)
    ops = [op for op in main.body.block.ops if not isinstance(op, ReturnOp)]
    refuse_unsupported(ops, why_not, "mlir")
    arguments, results = main.body.block.args, result_values(main)
    exported = FuncOp("main", ([tensor_of(v) for v in arguments], [tensor_of(v) for v in results]))
    exported.location = main.location
    exported.attributes[ATTRIBUTE] = DictionaryAttr(
        {
            "inputs": _signature(input_names(main), arguments),
            "outputs": _signature(output_names(main), results),
        }
    )
    block = exported.body.block
    tensors = Tensors(block)
    network = Network(tensors)
    network.values.update(zip(arguments, block.args, strict=True))
    for op in ops:
        if isinstance(op, graph.ConstantOp):
            continue
        assert isinstance(op, graph.GraphOperation)
        tensors.location = op.location
        value = build(network, op)
        network.values[op.output] = value
        if isinstance(value.owner, Operation) and ATTRIBUTE not in value.owner.attributes:
            value.owner.attributes[ATTRIBUTE] = _description(op)
    tensors.location = main.location
    tensors.end(ReturnOp(*map(network.get, results)))
    return exported


def _signature(names: Iterable[str], values: Iterable[SSAValue]) -> ArrayAttr[DictionaryAttr]:
    entries = zip(names, map(graph.tensor_type, values), strict=True)
    return ArrayAttr(
        [
            DictionaryAttr({"name": StringAttr(name), TYPE: StringAttr(str(kind))})
            for name, kind in entries
        ]
    )


def _description(op: graph.GraphOperation) -> DictionaryAttr:
    found: dict[str, Attribute] = {OPERATION: StringAttr(op.name)}
    if graph.quantized_element(op.output) is not None:
        found[TYPE] = StringAttr(str(op.output.type))
    found |= _without_tables(op.properties) | _without_tables(op.attributes)
    return DictionaryAttr(found)


def _without_tables(attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    # Tables are constants of the exported network.
    return {
        name: _upstream(attribute)
        for name, attribute in attributes.items()
        if not (isa(attribute, DenseIntOrFPElementsAttr) and len(attribute) > MAX_LISTED)
        and name != "operandSegmentSizes"
    }


def _upstream(attribute: Attribute) -> Attribute:
    if isinstance(kind := getattr(attribute, "data", None), StrEnum):
        return StringAttr(kind.value)
    if isa(attribute, ArrayAttr):
        return ArrayAttr([_upstream(each) for each in attribute.data])
    is_builtin = attribute.name in BUILTIN
    return attribute if is_builtin else StringAttr(str(attribute))


def text_of(module: ModuleOp) -> str:
    """Return the network of `module` in upstream dialects as MLIR text, with locations."""
    stream = io.StringIO()
    print_module(ModuleOp([export_module(module)]), stream, debuginfo=True)
    return stream.getvalue()


def emit(module: ModuleOp) -> list[Artefact]:
    """Return the file `model.mlir` of target mlir."""
    description = "the network in upstream dialects of MLIR"
    return [Artefact.of_text(MODEL_FILE, description, text_of(module))]


@dataclass(frozen=True)
class ConvertGraphToLinalgPass(ModulePass):
    """
    Convert a network to upstream dialects: func, arith, math, tensor, linalg and scf. The results
    of the network are the same bits, except for float sums that are not `ordered`. Operations
    keep their locations; the last operation of each has its properties in `ceras`.

    Before:

        func.func @main(%x: tensor<2x6xf32> {graph.name = "x"})
            -> (tensor<12xf32> {graph.name = "y"}) {
          %y = graph.reshape %x : (tensor<2x6xf32>) -> tensor<12xf32>
          func.return %y : tensor<12xf32>
        }

    After:

        func.func @main(%x: tensor<2x6xf32>) -> tensor<12xf32>
            attributes {ceras = {inputs = [{name = "x", type = "tensor<2x6xf32>"}],
            outputs = [{name = "y", type = "tensor<12xf32>"}]}} {
          %y = tensor.collapse_shape %x [[0 : i64, 1 : i64]]
              {ceras = {operation = "graph.reshape"}} : tensor<2x6xf32> into tensor<12xf32>
          func.return %y : tensor<12xf32>
        }
    """

    name = "convert-graph-to-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        exported = export_module(op)
        op.body.block.erase_op(main_function(op))
        op.body.block.add_op(exported)
