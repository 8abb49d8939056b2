"""Import a TensorFlow Lite model as a module: one function, emitted operator by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules

import onnx
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.values import Constant, Value, array_of_numbers, name_loc
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators import load_operators
from ceras_ir.frontends.onnx.operators.arithmetic import divide_exactly
from ceras_ir.frontends.tflite import operators
from ceras_ir.frontends.tflite.model.flatbuffer import damaged
from ceras_ir.frontends.tflite.model.schema import Model, Tensor
from ceras_ir.frontends.tflite.operation import Stored
from ceras_ir.frontends.tflite.scope import Scope
from ceras_ir.frontends.tflite.variables import Variables
from ceras_ir.network.function import MODEL_TYPE, NAME
from ceras_ir.support.diagnostics import InputError, did_you_mean

MODEL_TYPES = ("float16", "float64")
"""Float types of inputs and outputs that array files keep."""


class Importer:
    """The import of a single TensorFlow Lite model."""

    def __init__(
        self,
        model: Model,
        *,
        batch: int,
        shapes: Mapping[str, Sequence[int]],
        values: Mapping[str, Sequence[float]],
    ):
        self.model = model
        self.graph = model.subgraph(0)
        self.batch = batch
        self.shapes = shapes
        self.set_values = values
        self.emitter = Emitter(Block(), self._no_subgraph)
        self.variables = Variables(self.emitter.block)
        is_declared = not shapes and batch == 1
        self.scope = Scope(model, 0, self.emitter, self.variables, has_declared_shapes=is_declared)
        self.values = self.scope.values
        self.names = _distinct([self.graph.tensors[i].name for i in self.graph.inputs])

    @staticmethod
    def _no_subgraph(name: str, emitter: Emitter, bound: Mapping[str, Value]) -> Sequence[Value]:
        raise emitter.node.unsupported(f"the subgraph '{name}'")

    @property
    def open_inputs(self) -> list[str]:
        """
        The names of the inputs that have open dimensions other than the first, and for which the
        user gives no shape.
        """
        tensors = (self.graph.tensors[i] for i in self.graph.inputs)
        return [
            name
            for name, tensor in zip(self.names, tensors, strict=True)
            if any(tensor.open_dimensions) and name not in self.shapes
        ]

    def module(self) -> ModuleOp:
        """Return the imported module, with the function `main`."""
        load_operators()
        for each in iter_modules(operators.__path__, f"{operators.__name__}."):
            import_module(each.name)
        self._check_names()
        arguments = self._add_inputs()
        self.scope.emit()
        main = self._function(arguments)
        module = ModuleOp([main, *self.emitter.functions])
        divide_exactly(module)
        return module

    def _check_names(self) -> None:
        for name in (*self.shapes, *self.set_values):
            if name not in self.names:
                raise InputError(f"no input named '{name}'{did_you_mean(name, self.names)}")

    def _add_inputs(self) -> list[DictionaryAttr]:
        if len(set(self.graph.inputs)) != len(self.graph.inputs):
            raise damaged("an input is listed twice")
        attributes: list[DictionaryAttr] = []
        for index, name in zip(self.graph.inputs, self.names, strict=True):
            tensor = self.graph.tensors[index]
            shape = self._shape_of(tensor, name)
            if name in self.set_values:
                array = array_of_numbers(name, self.set_values[name], tensor.dtype, shape)
                constant = Constant.of(name, array)
                self.values[index] = constant
                continue
            kind = TensorType(tensor.element, shape)
            argument = self.emitter.block.insert_arg(kind, len(self.emitter.block.args))
            argument.location = name_loc(name)
            self.values[index] = argument
            attributes.append(_interface(tensor, name))
        return attributes

    def _shape_of(self, tensor: Tensor, name: str) -> tuple[int, ...]:
        if (given := self.shapes.get(name)) is not None:
            if len(given) != len(tensor.shape):
                raise InputError(f"--shape {name}: expected {len(tensor.shape)} extents")
            return tuple(given)
        if 0 in tensor.open_dimensions:
            return (self.batch, *tensor.shape[1:])
        return tensor.shape

    def _function(self, arguments: list[DictionaryAttr]) -> FuncOp:
        names = _distinct([self.graph.tensors[i].name for i in self.graph.outputs])
        results: list[SSAValue] = []
        attributes: list[DictionaryAttr] = []
        for index, name in zip(self.graph.outputs, names, strict=True):
            tensor = self.graph.tensors[index]
            self.emitter.node = Node(onnx.NodeProto(name=name, op_type="graph output"), 0)
            if index not in self.values:
                raise damaged(f"the output '{name}' is not computed")
            value = self.values[index]
            if isinstance(value, Stored):
                raise self.emitter.node.unsupported("a quantized constant as an output; remove it")
            results.append(self.emitter.materialize(value))
            attributes.append(_interface(tensor, name))
        if not results:
            raise damaged("the network has no output")
        block = self.emitter.block
        for name in self.variables.names:
            results.append(self.variables.current[name])
            entries: dict[str, Attribute] = {NAME: StringAttr(Variables.result_name(name))}
            attributes.append(DictionaryAttr(entries))
        block.add_op(ReturnOp(*results))
        return FuncOp(
            "main",
            ([a.type for a in block.args], [r.type for r in results]),
            Region(block),
            arg_attrs=ArrayAttr([*arguments, *self.variables.arguments]),
            res_attrs=ArrayAttr(attributes),
        )


def _interface(tensor: Tensor, name: str) -> DictionaryAttr:
    entries: dict[str, Attribute] = {NAME: StringAttr(name)}
    if tensor.kind in MODEL_TYPES:
        entries[MODEL_TYPE] = StringAttr(tensor.kind)
    return DictionaryAttr(entries)


def _distinct(names: Sequence[str]) -> list[str]:
    """Return `names`, in which a name that occurs before gets the index as a suffix: `x`, `x_1`."""
    found: list[str] = []
    for i, name in enumerate(names):
        found.append(name if name not in found else f"{name}_{i}")
    return found
