"""
From a parsed model to a module: refuse what is not supported, then emit node by node.

The first pass knows which names are constants and applies every rule that needs no shapes, so
that all refusals come at once and before any work. The second emits; what it has to refuse
it collects as well, leaving out what depends on it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from ceras_ir.frontends.onnx.emitter import Emitter, name_loc
from ceras_ir.frontends.onnx.folding import FOLDABLE, evaluate
from ceras_ir.frontends.onnx.functions import inlined
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators import load_operators
from ceras_ir.frontends.onnx.order import is_folded, ordered_nodes
from ceras_ir.frontends.onnx.registry import OPERATORS, refusals
from ceras_ir.frontends.onnx.signature import contradiction, end_attributes, read_inputs
from ceras_ir.frontends.onnx.tensors import (
    DTYPES,
    Array,
    tensor_array,
    tensor_shape,
    text,
    type_name,
)
from ceras_ir.frontends.onnx.values import Constant, Value
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError
from ceras_ir.transforms.graph.eliminate_transposes import EliminateTransposesPass

NUMBERS = "floats of 16 to 64 bits, integers of 8 to 64 bits and booleans are read"

NEWEST_IR = 14
"""The version of ONNX's file format that came with the newest operators."""

OLDEST_OPSET, NEWEST_OPSET = 6, 28
"""Versions of ONNX's operators whose meaning the importers know."""


class Importer:
    """One import of one model."""

    def __init__(
        self,
        model: onnx.ModelProto,
        *,
        batch: int,
        shapes: Mapping[str, Sequence[int]],
        name: str | None,
        folder: Path | None,
    ):
        self.model = inlined(model)
        self.graph = self.model.graph
        self.batch = batch
        self.shapes = shapes
        self.name = name
        self.folder = folder

    def run(self) -> ModuleOp:
        """The module; transposes are gone where they can be."""
        try:
            module = self._module()
        except InputError as e:
            e.file = e.file or self.name
            raise
        EliminateTransposesPass().apply(Context(), module)
        return module

    def _module(self) -> ModuleOp:
        load_operators()
        opset = self._opset()
        inputs = read_inputs(self.graph, self.batch, self.shapes)
        outputs = [text(value.name) for value in self.graph.output]
        if not outputs or not all(outputs) or len(set(outputs)) != len(outputs):
            raise InputError("not a complete ONNX model: outputs must have names of their own")
        initializers = self._initializers(self.graph)
        known = {*initializers, *(value.name for value in inputs)}
        nodes = ordered_nodes(self.graph, opset, known, set(initializers), outputs)
        if found := [f for node in nodes for f in self._refused(node)]:
            raise UnsupportedError(found)

        block = Block(arg_types=[TensorType(value.element, value.shape) for value in inputs])
        emitter = Emitter(block)
        emitter.values.update(initializers)
        for value, argument in zip(inputs, block.args, strict=True):
            argument.location = name_loc(value.name)
            emitter.values[value.name] = argument
        self._emit(nodes, emitter)
        results = [self._result(emitter, value) for value in self.graph.output]
        block.add_op(ReturnOp(*results))
        main = FuncOp(
            "main",
            ([a.type for a in block.args], [r.type for r in results]),
            Region(block),
            arg_attrs=ArrayAttr([value.attributes for value in inputs]),
            res_attrs=ArrayAttr([end_attributes(value) for value in self.graph.output]),
        )
        return ModuleOp([main])

    def _opset(self) -> int:
        if not self.model.HasField("graph"):
            raise InputError("not an ONNX model: it has no graph")
        if (version := self.model.ir_version) > NEWEST_IR:
            raise UnsupportedError(
                f"unsupported IR version {version}: up to {NEWEST_IR} are read; save the model for "
                "an older one"
            )
        versions: dict[str, int] = {}
        for entry in self.model.opset_import:
            domain = "" if entry.domain == "ai.onnx" else text(entry.domain)
            if versions.setdefault(domain, entry.version) != entry.version:
                name = domain or "ai.onnx"
                raise InputError(f"two versions of operator set '{name}' are imported")
        opset = versions.get("")
        if opset is None:
            others = [Node(proto, 0) for proto in self.graph.node if proto.domain in versions]
            if others and len(others) == len(self.graph.node):
                raise UnsupportedError([f for node in others for f in refusals(node)])
            raise InputError("not an ONNX model: no version of the operator set ai.onnx")
        if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
            raise UnsupportedError(
                f"unsupported opset {opset}: {OLDEST_OPSET} to {NEWEST_OPSET} are read; "
                "convert the model with onnx.version_converter.convert_version(model, 17)"
            )
        return opset

    def _initializers(self, graph: onnx.GraphProto) -> dict[str, Constant]:
        values: dict[str, Constant] = {}
        if graph.sparse_initializer:
            raise UnsupportedError("unsupported sparse initializers; store them as dense tensors")
        for tensor in graph.initializer:
            if text(tensor.name) in values:
                raise InputError(f"two initializers are called '{tensor.name}'")
            values[tensor.name] = self._constant(tensor, tensor.name)
        return values

    def _constant(self, tensor: onnx.TensorProto, name: str) -> Constant:
        def load() -> Array:
            try:
                return tensor_array(tensor, self.folder)
            except ValueError as e:
                raise InputError([Finding(name, "initializer", str(e))]) from None
            except OSError as e:
                message = f"cannot read external data: {e.strerror or e}"
                raise InputError([Finding(name, "initializer", message)]) from None

        if tensor.data_type not in DTYPES:
            message = f"unsupported element type {type_name(tensor.data_type)}; {NUMBERS}"
            raise UnsupportedError([Finding(name, "initializer", message)])
        try:
            shape, dtype = tensor_shape(tensor), DTYPES[tensor.data_type]
        except ValueError as e:
            raise InputError([Finding(name, "initializer", str(e))]) from None
        return Constant(name, shape, dtype, load, (name,))

    def _refused(self, node: Node) -> Sequence[Finding]:
        is_evaluated = node.operator in FOLDABLE and is_folded(node)
        return () if is_evaluated else refusals(node)

    def _emit(self, nodes: Sequence[Node], emitter: Emitter) -> None:
        refused: list[Finding] = []
        for node in nodes:
            if any(name and name not in emitter.values for name in node.inputs):
                continue  # Depends on what was refused.
            emitter.node = node
            try:
                results = self._results(node, emitter)
            except UnsupportedError as e:
                refused.extend(e.findings)
                continue
            if len(results) < len(node.outputs):
                raise node.wrong(f"has {len(node.outputs)} outputs, expected {len(results)}")
            emitter.values.update(zip(node.outputs, results, strict=False))
        if refused:
            raise UnsupportedError(refused)

    def _results(self, node: Node, emitter: Emitter) -> Sequence[Value]:
        if node.operator in FOLDABLE and is_folded(node):
            operands = [emitter.stored(i) if n else None for i, n in enumerate(node.inputs)]
            names = [name or node.name for name in node.outputs]
            arrays = evaluate(node, operands)
            return [
                Constant(name, a.shape, a.dtype, lambda a=a: a, (name,))
                for name, a in zip(names, arrays, strict=False)
            ]
        if node.operator == "If":
            return self._branch(node, emitter)
        if node.operator == "Constant" and (tensor := node.tensor("value")) is not None:
            return [self._constant(tensor, node.outputs[0])]
        result = OPERATORS[node.operator](node, emitter)
        if unread := node.unread():
            raise node.wrong(f"{node.operator} has no attribute '{unread[0]}'")
        if isinstance(result, SSAValue | Constant):
            return [result, *(result for _ in node.outputs[1:])]
        return result

    def _branch(self, node: Node, emitter: Emitter) -> Sequence[Value]:
        """The results of the branch that a constant condition takes."""
        condition = emitter.array(0)
        if condition.size != 1:
            raise node.wrong(f"a condition of one element expected, got {list(condition.shape)}")
        graph = node.subgraph("then_branch" if condition.reshape(-1)[0] else "else_branch")
        emitter.values.update(self._initializers(graph))
        constants = {name for name, v in emitter.values.items() if isinstance(v, Constant)}
        outputs = [text(value.name) for value in graph.output]
        nodes = ordered_nodes(graph, node.opset, set(emitter.values), constants, outputs)
        if found := [f for inner in nodes for f in self._refused(inner)]:
            raise UnsupportedError(found)
        self._emit(nodes, emitter)
        return [emitter.values[name] for name in outputs]

    def _result(self, emitter: Emitter, value: onnx.ValueInfoProto) -> SSAValue:
        emitter.node = Node(onnx.NodeProto(name=value.name, op_type="graph output"), 0)
        result = emitter.materialize(emitter.values[value.name])
        if (message := contradiction(value, result, self.graph)) is not None:
            raise emitter.node.wrong(message)
        return result
