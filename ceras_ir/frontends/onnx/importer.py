"""
From a parsed model to a module: refuse what is not supported, then emit node by node.

The first pass knows which names may be constants and applies every rule that needs no shapes, so
that all refusals come at once and before any work. The second emits; what it has to refuse
it collects as well, leaving out what depends on it. A node of constants alone is folded.
"""

from collections.abc import Mapping, Sequence
from math import prod

import onnx
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from ceras_ir.frontends.onnx.attributes import check_attributes
from ceras_ir.frontends.onnx.declarations import check_declarations
from ceras_ir.frontends.onnx.emitter import Emitter, name_loc, shape_of_value
from ceras_ir.frontends.onnx.fixed_inputs import empty_inputs, fix_inputs
from ceras_ir.frontends.onnx.folding import FOLDABLE, computed, evaluate
from ceras_ir.frontends.onnx.functions import inlined
from ceras_ir.frontends.onnx.initializers import constant_of, initializers
from ceras_ir.frontends.onnx.model_file import DataFolder
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators import load_operators
from ceras_ir.frontends.onnx.operators.identity import constant_tensor
from ceras_ir.frontends.onnx.opsets import imported_versions
from ceras_ir.frontends.onnx.order import VIEWS, inner_nodes, is_folded, ordered_nodes
from ceras_ir.frontends.onnx.registry import OPERATORS, refusals
from ceras_ir.frontends.onnx.schema_functions import body_of, has_body
from ceras_ir.frontends.onnx.signature import (
    chosen_extents,
    declared_empty,
    end_attributes,
    other_shape,
    other_type,
    read_inputs,
)
from ceras_ir.frontends.onnx.tensors import text
from ceras_ir.frontends.onnx.values import NO_VALUE, Constant, TensorList, Value
from ceras_ir.network.function import MODEL_TYPE
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError
from ceras_ir.support.remarks import remark
from ceras_ir.transforms.graph.eliminate_transposes import EliminateTransposesPass

KEEP_NAMES = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Cast"})
"""Operators whose result has the names of its operand's numbers."""

TAKE_NAMES = KEEP_NAMES | {"ai.onnx.ml::LabelEncoder"}
"""Operators that take numbers that are text in the model."""

TAKE_SEQUENCES = frozenset(
    (
        *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
        *("SequenceLength", "SplitToSequence", "ConcatFromSequence", "Identity", "Loop", "If"),
    )
)
"""Operators that take or make sequences of tensors, and those that hand any value on."""

NEWEST_IR = 14
"""The version of ONNX's file format that came with the newest operators."""

MAX_DEPTH = 16
"""Of control flow and functions inside each other."""

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
        values: Mapping[str, Sequence[float]],
        name: str | None,
        folder: DataFolder | None,
    ):
        check_attributes(model)
        self.model = inlined(model)
        self.graph = self.model.graph
        self.batch = batch
        self.shapes = shapes
        self.values = values
        self.name = name
        self.folder = folder
        self.named: Mapping[str, Value] = {}
        """What `as_written` made of each tensor that the model's own graph names."""

    def run(self) -> ModuleOp:
        """The module; transposes are gone where they can be."""
        module = self.as_written()
        EliminateTransposesPass().apply(Context(), module)
        return module

    def as_written(self) -> ModuleOp:
        """The module with all values in the layouts of the model."""
        try:
            return self._module()
        except InputError as e:
            e.file = e.file or self.name
            raise

    def _module(self) -> ModuleOp:
        load_operators()
        opset = self._opset()
        refused: list[Finding] = []
        check_declarations(self.graph)
        fixed = {
            **empty_inputs(self.graph, self.shapes),
            **fix_inputs(self.graph, self.values, self.shapes),
        }
        inputs = read_inputs(self.graph, self.batch, self.shapes, set(fixed), refused)
        outputs = [text(value.name) for value in self.graph.output]
        if not outputs or not all(outputs) or len(set(outputs)) != len(outputs):
            raise InputError("not a complete ONNX model: outputs must have names of their own")
        constants = {**initializers(self.graph, self.folder, (), refused), **fixed}
        known = {*constants, *(value.name for value in inputs)}
        nodes = ordered_nodes(self.graph, opset, known, set(constants), outputs)
        refused += [f for node in nodes for f in _refused(node)]
        if refused:
            raise UnsupportedError(refused)

        block = Block(arg_types=[TensorType(value.element, value.shape) for value in inputs])
        emitter = Emitter(block, self._subgraph)
        emitter.values.update(constants)
        for value in (*self.graph.value_info, *self.graph.output):
            extents = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            if extents and all(extent > 0 for extent in extents):
                emitter.declared[value.name] = tuple(extents)
        for value, argument in zip(inputs, block.args, strict=True):
            argument.location = name_loc(value.name)
            emitter.values[value.name] = argument
            if value.attributes.data.get(MODEL_TYPE) == StringAttr("float64"):
                emitter.rounded.add(argument)
        try:
            self._emit(nodes, emitter)
            results = [self._result(emitter, value) for value in self.graph.output]
        except UnsupportedError as e:
            e.findings = (*e.findings, *declared_empty(self.graph, {*self.shapes, *self.values}))
            raise
        except InputError as e:
            if e.findings:
                e.findings = (*e.findings, *chosen_extents(self.graph, inputs))
            raise
        block.add_op(ReturnOp(*results))
        self.named = emitter.values
        main = FuncOp(
            "main",
            ([a.type for a in block.args], [r.type for r in results]),
            Region(block),
            arg_attrs=ArrayAttr([value.attributes for value in inputs]),
            res_attrs=ArrayAttr(
                [
                    end_attributes(value, emitter.labels.get(result, ()))
                    for value, result in zip(self.graph.output, results, strict=True)
                ]
            ),
        )
        return ModuleOp([main, *emitter.functions])

    def _opset(self) -> int:
        if not self.model.HasField("graph"):
            raise InputError("not an ONNX model: it has no graph")
        if (version := self.model.ir_version) > NEWEST_IR:
            raise UnsupportedError(
                f"unsupported IR version {version}: up to {NEWEST_IR} are read; save the model for "
                "an older one"
            )
        versions = imported_versions(self.model.opset_import)
        opset = versions.get("")
        if opset is None:
            others = [Node(proto, 0) for proto in self.graph.node if proto.domain in versions]
            if others and len(others) == len(self.graph.node):
                if refused := [f for node in others for f in refusals(node)]:
                    raise UnsupportedError(refused)
                # XGBoost's converter: no node is of a version of ai.onnx.
                return NEWEST_OPSET
            raise InputError("not an ONNX model: no version of the operator set ai.onnx")
        if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
            raise UnsupportedError(
                f"unsupported opset {opset}: {OLDEST_OPSET} to {NEWEST_OPSET} are read; "
                "convert the model with onnx.version_converter.convert_version(model, 17)"
            )
        return opset

    def _emit(self, nodes: Sequence[Node], emitter: Emitter) -> None:
        refused: list[Finding] = []
        for node in nodes:
            if any(name and name not in emitter.values for name in node.inputs):
                continue  # Depends on what was refused.
            captured = node.captured()
            if any(name not in emitter.values for name in captured - node.defined()):
                continue
            emitter.node = node
            # What control flow and functions make is constant more often than names can tell.
            read = captured.union(node.inputs)
            known = {n: v for n in read if isinstance(v := emitter.values.get(n), Constant)}
            node.constants = {n for n, v in known.items() if not isinstance(v, TensorList)}
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
        folded = is_folded(node) and node.operator not in TAKE_SEQUENCES - VIEWS
        if folded and (node.operator in FOLDABLE or _reads_nothing(node, emitter)):
            return self._evaluated(node, emitter)
        if node.operator == "Constant" and (tensor := constant_tensor(node)) is not None:
            return [constant_of(tensor, node.outputs[0], self.folder, emitter.scope)]
        if node.operator in OPERATORS:
            if found := refusals(node):
                raise UnsupportedError(found)
            if folded and node.operator not in VIEWS and not node.subgraphs():
                return computed(node, emitter, lambda: self._imported(node, emitter))
            return self._imported(node, emitter)
        operands = [
            emitter.value(i) if node.has_input(i) else None for i in range(len(node.inputs))
        ]
        if (body := body_of(node, operands)) is not None:
            if self._in_bfloat16(node):
                raise node.unsupported(
                    "of bfloat16, to which ONNX rounds after every step of this function; export "
                    "the model in float32"
                )
            graph, opset, bound = body
            found = iter(self._nested(graph, opset, emitter, bound, None))
            return [next(found) if name else NO_VALUE for name in node.outputs]
        if folded:
            return self._evaluated(node, emitter)
        raise UnsupportedError(refusals(node))

    def _in_bfloat16(self, node: Node) -> bool:
        """Whether an operand is an input of the model in bfloat16."""
        kinds = {value.name: value.type.tensor_type.elem_type for value in self.graph.input}
        return any(kinds.get(name) == onnx.TensorProto.BFLOAT16 for name in node.inputs)

    def _evaluated(self, node: Node, emitter: Emitter) -> Sequence[Value]:
        """The results of a node of constants, by ONNX's own evaluator."""
        operands = [emitter.stored(i) if n else None for i, n in enumerate(node.inputs)]
        names = [name or node.name for name in node.outputs]
        arrays = evaluate(node, operands)
        return [
            Constant(name, a.shape, a.dtype, lambda a=a: a, None if emitter.scope else (name,))
            for name, a in zip(names, arrays, strict=False)
        ]

    def _imported(self, node: Node, emitter: Emitter) -> Sequence[Value]:
        operands = [emitter.values[name] for name in node.inputs if name]
        is_list = any(isinstance(value, TensorList) for value in operands)
        if is_list and node.operator not in TAKE_SEQUENCES:
            raise node.unsupported("of a sequence of tensors; export the model with single ones")
        named = [emitter.labels.get(v) for v in operands if isinstance(v, SSAValue)]
        if any(named) and node.operator not in TAKE_NAMES:
            raise node.unsupported(
                "on text: labels that are strings are numbers here; read them as outputs, and do "
                "the rest in the application"
            )
        result = OPERATORS[node.operator](node, emitter)
        if unread := node.unread():
            raise node.wrong(f"{node.operator} has no attribute '{unread[0]}'")
        if named and (names := named[0]) and node.operator in KEEP_NAMES:
            assert isinstance(result, SSAValue)
            emitter.labels[result] = names
        if isinstance(result, SSAValue | Constant):
            return [result, *(result for _ in node.outputs[1:])]
        return result

    def _subgraph(self, name: str, emitter: Emitter, bound: Mapping[str, Value]) -> Sequence[Value]:
        """The outputs of a subgraph of the current node, which sees what the node sees."""
        node = emitter.node
        return self._nested(node.subgraph(name), node.opset, emitter, bound, name)

    def _nested(
        self,
        graph: onnx.GraphProto,
        opset: int,
        emitter: Emitter,
        bound: Mapping[str, Value],
        attribute: str | None,
    ) -> Sequence[Value]:
        """
        The outputs of a graph whose inputs are `bound`: of the `attribute` of the node, or of the
        function that the node is, which sees nothing else.
        """
        outer, node, scope = emitter.values, emitter.node, emitter.scope
        refused: list[Finding] = []
        # A name of the graph around it, and so of one value, whatever names are inside.
        emitter.scope = (*scope, next(filter(None, node.outputs), node.name), attribute or "")
        try:
            if len(scope) > 2 * MAX_DEPTH:
                raise node.unsupported(f"nested more than {MAX_DEPTH} deep; export it flatter")
            own = initializers(graph, self.folder, emitter.scope, refused)
            if refused:
                raise UnsupportedError(refused)
            emitter.values = {**(outer if attribute else {}), **own, **bound}
            constants = {n for n, v in emitter.values.items() if isinstance(v, Constant)}
            outputs = [text(value.name) for value in graph.output]
            nodes = ordered_nodes(graph, opset, set(emitter.values), constants, outputs)
            self._emit(nodes, emitter)
            return [emitter.values[name] for name in outputs]
        finally:
            emitter.values, emitter.node, emitter.scope = outer, node, scope

    def _result(self, emitter: Emitter, value: onnx.ValueInfoProto) -> SSAValue:
        emitter.node = Node(onnx.NodeProto(name=value.name, op_type="graph output"), 0)
        if isinstance(emitter.values[value.name], TensorList):
            raise emitter.node.unsupported(
                "a sequence of tensors; export the model with an output for each"
            )
        result = emitter.materialize(emitter.values[value.name])
        is_text = value.type.tensor_type.elem_type == onnx.TensorProto.STRING
        if is_text and result not in emitter.labels:
            raise emitter.node.unsupported("text that is no label of a classifier; remove it")
        if (message := other_type(value, result)) is not None:
            raise emitter.node.wrong(message)
        # Exporters write wrong shapes; runtimes compute what the nodes say, and warn too.
        if (message := other_shape(value, result, self.graph)) is not None:
            remark(f"import: warning: output '{text(value.name)}' {message}, which is taken")
        return result


def _reads_nothing(node: Node, emitter: Emitter) -> bool:
    """Whether the first operand has no elements, of which the IR has no constants."""
    if node.operator in VIEWS or node.subgraphs() or not node.has_input(0):
        return False
    return not prod(shape_of_value(emitter.value(0)))


def _refused(node: Node) -> Sequence[Finding]:
    """What is known to be unsupported of a node and of its subgraphs, without any shape."""
    if is_folded(node) or (node.operator not in OPERATORS and has_body(node)):
        return ()
    found = list(refusals(node))
    if node.operator == "If" and node.is_constant(0):
        return found  # One of its branches is never taken.
    for graph in node.subgraphs():
        for inner in inner_nodes(node, graph, set()):
            # Rules of operands wait until it is known what is bound to the graph's inputs.
            if inner.subgraphs() or inner.operator not in OPERATORS:
                found += _refused(inner)
    return found
