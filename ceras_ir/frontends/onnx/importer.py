"""
Import a parsed model as a module: refuse unsupported nodes, then emit node by node.

The first pass knows the names of possible constants and applies all rules that need no shapes, so
that all these refusals are reported together and early. The second pass emits operations. It
collects refusals too, and skips nodes that depend on a refused node. Nodes with only constant
operands are folded.
"""

from collections.abc import Collection, Mapping, Sequence
from math import prod

import onnx
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from ceras_ir.dialects.graph import QuantizeOp, quantized_element
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.folding import FOLDABLE, body_of, computed, evaluate
from ceras_ir.frontends.onnx.emission.quantization import keep_ties, width_of_bounds
from ceras_ir.frontends.onnx.emission.registry import OPERATORS, OperatorImporter, refusals
from ceras_ir.frontends.onnx.emission.values import (
    NO_VALUE,
    Constant,
    TensorList,
    Value,
    constant_of,
    empty_inputs,
    fix_inputs,
    initializers,
    name_loc,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.functions import check_attributes, inlined
from ceras_ir.frontends.onnx.model.model_file import DataFolder, text
from ceras_ir.frontends.onnx.model.node import MalformedError, Node, imported_versions
from ceras_ir.frontends.onnx.model.signature import (
    check_declarations,
    check_stated,
    declared_empty,
    input_shapes,
    interface_attributes,
    origin_of,
    other_shape,
    other_type,
    read_inputs,
)
from ceras_ir.frontends.onnx.operators import load_operators
from ceras_ir.frontends.onnx.operators.arithmetic import divide_exactly
from ceras_ir.frontends.onnx.operators.identity import constant_tensor
from ceras_ir.frontends.onnx.order import (
    VALUE_PRESERVING,
    early_refusals,
    inner_origins,
    is_folded,
    ordered_nodes,
)
from ceras_ir.network.function import MODEL_TYPE, NAME
from ceras_ir.network.storage import TIES_KEY
from ceras_ir.support.diagnostics import (
    Finding,
    InputError,
    UnsupportedError,
    node_name,
    remark,
)

KEEPS_LABELS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Cast"})
"""Operators that keep the labels of their operand."""

TAKES_LABELS = KEEPS_LABELS | {"ai.onnx.ml::LabelEncoder"}
"""Operators that accept integers that are text in the model."""

SIZE_OPERANDS = {"Slice": (1, 2), "Pad": (1,), "Resize": (1, 2, 3), "Upsample": (1,)}
"""The operands that may decide the extents of the result at run time."""

SEQUENCE_OPERATORS = frozenset(
    (
        *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
        *("SequenceLength", "SplitToSequence", "ConcatFromSequence", "Identity", "Loop", "If"),
    )
)
"""Operators that accept or return sequences of tensors."""

NEWEST_IR = 14
"""The newest supported version of ONNX's file format."""

MAX_NESTING_DEPTH = 16
"""Maximum nesting of control flow and functions."""

OLDEST_OPSET, NEWEST_OPSET = 6, 28
"""The supported versions of the operator set ai.onnx."""


class Importer:
    """The import of a single ONNX model."""

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
        self.even = {
            name
            for each in model.metadata_props
            if each.key == TIES_KEY
            for name in each.value.splitlines()
        }
        """The nodes QuantizeLinear for which integer operations round ties to even, too."""
        self.model = inlined(model)
        self.graph = self.model.graph
        self.batch = batch
        self.shapes = shapes
        self.values = values
        self.name = name
        self.folder = folder
        self.named: Mapping[str, Value] = {}
        """The value or constant of each tensor of the main graph, after `module`."""
        self.sized: Collection[SSAValue] = ()
        """The values with extents that data decide, and those with stated shapes."""
        self.emitted: set[str] = set()
        """The first results of the nodes that were emitted, subgraphs included."""

    def module(self, *, emits_always: bool = False) -> ModuleOp:
        """
        Return the imported module. Values have the layouts of the model. With `emits_always`, nodes
        are emitted even after unsupported nodes were found, so that all problems are reported
        together.
        """
        load_operators()
        opset = self._opset()
        refused: list[Finding] = []
        check_declarations(self.graph)
        shapes, stated = input_shapes(self.graph, self.shapes)
        fixed = {
            **empty_inputs(self.graph, shapes),
            **fix_inputs(self.graph, self.values, shapes),
        }
        inputs = read_inputs(self.graph, self.batch, shapes, set(fixed), refused)
        outputs = [text(value.name) for value in self.graph.output]
        if not outputs or not all(outputs) or len(set(outputs)) != len(outputs):
            raise InputError("not a complete ONNX model: outputs must have distinct names")
        constants = {**initializers(self.graph, self.folder, (), refused), **fixed}
        known = {*constants, *(value.name for value in inputs)}
        origins = {value.name: origin_of(value) for value in self.graph.input}
        origins.update(dict.fromkeys(constants, frozenset[str]()))
        nodes = ordered_nodes(self.graph, opset, known, set(constants), origins, outputs)
        refused += early_refusals(nodes, outputs)
        if refused and not emits_always:
            raise UnsupportedError(refused)

        block = Block(arg_types=[TensorType(value.element, value.shape) for value in inputs])
        emitter = Emitter(block, self._subgraph)
        emitter.values.update(constants)
        emitter.table.stated = stated
        for value in (*self.graph.value_info, *self.graph.output):
            extents = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
            if extents and min(extents) > 0:
                emitter.declared[value.name] = extents
        for value, argument in zip(inputs, block.args, strict=True):
            argument.location = name_loc(value.name)
            emitter.values[value.name] = argument
            if value.attributes.data.get(MODEL_TYPE) == StringAttr("float64"):
                emitter.rounded.add(argument)
        try:
            self._emit(nodes, emitter, outputs)
            results = [self._result(emitter, value) for value in self.graph.output]
            sizes = self._sizes(emitter)
        except UnsupportedError as e:
            empty = declared_empty(self.graph, {*self.shapes, *self.values})
            e.findings = (*emitter.assumed, *e.findings, *empty)
            raise
        except MalformedError:
            raise
        except InputError:
            if emitter.assumed:  # The assumed maxima may be wrong.
                raise UnsupportedError(emitter.assumed) from None
            raise
        if refused := [*refused, *emitter.assumed]:
            raise UnsupportedError(refused)
        check_stated(stated, emitter.table.confirmed)
        if names := list(dict.fromkeys(emitter.widened)):
            remark(
                "import: note: blocks of weights below 8 bits are widened to float32: "
                f"{len(names)} {'tensor' if len(names) == 1 else 'tensors'}, such as '{names[0]}'"
            )
        for op in block.ops:
            if isinstance(op, QuantizeOp) and node_name(op) in self.even:
                keep_ties(op)
        block.add_op(ReturnOp(*results, *sizes.values()))
        self.named = emitter.values
        self.sized = {*emitter.table.extents, *emitter.table.cut}
        main = FuncOp(
            "main",
            ([a.type for a in block.args], [r.type for r in (*results, *sizes.values())]),
            Region(block),
            arg_attrs=ArrayAttr([value.attributes for value in inputs]),
            res_attrs=ArrayAttr(
                [
                    interface_attributes(value, emitter.labels.get(result, ()))
                    for value, result in zip(self.graph.output, results, strict=True)
                ]
                + [DictionaryAttr({NAME: StringAttr(name)}) for name in sizes]
            ),
        )
        module = ModuleOp([main, *emitter.functions])
        divide_exactly(module)
        return module

    def _opset(self) -> int:
        if not self.model.HasField("graph"):
            raise InputError("not an ONNX model: it has no graph")
        if (version := self.model.ir_version) > NEWEST_IR:
            known = f"expected at most {NEWEST_IR}; save the model with an older version"
            raise UnsupportedError(f"unsupported IR version {version}, {known}")
        versions = imported_versions(self.model.opset_import)
        opset = versions.get("")
        if opset is None:
            nodes = [Node(proto, 0) for proto in self.graph.node if proto.domain in versions]
            if nodes and len(nodes) == len(self.graph.node):
                if refused := [f for node in nodes for f in refusals(node)]:
                    raise UnsupportedError(refused)
                # The converter of XGBoost writes no version if no operator is of ai.onnx.
                return NEWEST_OPSET
            raise InputError("not an ONNX model: no version of the operator set ai.onnx")
        if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
            raise UnsupportedError(
                f"unsupported opset {opset}, expected {OLDEST_OPSET} to {NEWEST_OPSET}; "
                "convert the model with onnx.version_converter.convert_version(model, 17)"
            )
        return opset

    def _emit(self, nodes: Sequence[Node], emitter: Emitter, outputs: Sequence[str]) -> None:
        refused: list[Finding] = []
        wrong: InputError | None = None
        missing: set[str] = set()
        for node in nodes:
            captured: set[str] = set()
            if not (is_missing := bool(missing.intersection(node.inputs))):
                graphs = _reachable_graphs(node, emitter)
                captured = node.captured(graphs)
                is_missing = bool(missing.intersection(captured - node.defined(graphs)))
            if is_missing:
                missing.update(filter(None, node.outputs))
                continue
            emitter.node = node
            # Results of control flow and functions can be constants that the names do not show.
            known = {n: emitter.values.get(n) for n in captured.union(node.inputs)}
            node.constants = {
                n
                for n, v in known.items()
                if isinstance(v, Constant) and not isinstance(v, TensorList)
            }
            try:
                results = self._results(node, emitter)
            except UnsupportedError as e:
                refused.extend(e.findings)
                missing.update(filter(None, node.outputs))
                continue
            except MalformedError:
                raise
            except InputError as e:
                wrong = wrong or e
                missing.update(filter(None, node.outputs))
                continue
            self.emitted.add(next(filter(None, node.outputs), node.name))
            if len(results) < len(node.outputs):
                raise node.malformed(f"has {len(node.outputs)} outputs, expected {len(results)}")
            emitter.values.update(zip(node.outputs, results, strict=False))
        if not missing.intersection(outputs):
            return  # Only branches that are not executed depend on the errors.
        if wrong is not None:
            raise wrong
        raise UnsupportedError(refused)

    def _results(self, node: Node, emitter: Emitter) -> Sequence[Value]:
        folded = is_folded(node) and node.operator not in SEQUENCE_OPERATORS - VALUE_PRESERVING
        if folded and (node.operator in FOLDABLE or _has_empty_operand(node, emitter)):
            return self._evaluated(node, emitter)
        if node.operator == "Constant" and (tensor := constant_tensor(node)) is not None:
            return [constant_of(tensor, node.outputs[0], self.folder, emitter.scope)]
        if node.operator in OPERATORS:
            if found := refusals(node):
                raise UnsupportedError(found)
            if folded and node.operator not in VALUE_PRESERVING and not node.subgraphs():
                return computed(node, emitter, lambda: self._imported(node, emitter))
            return self._imported(node, emitter)
        operands = [
            emitter.value(i) if node.has_input(i) else None for i in range(len(node.inputs))
        ]
        if (body := body_of(node, operands)) is not None:
            if self._has_bfloat16_input(node):
                raise node.unsupported(
                    "of bfloat16, to which ONNX rounds after each step of this function; export "
                    "the model in float32"
                )
            graph, opset, bound = body
            found = iter(self._nested(graph, opset, emitter, bound, None))
            return [next(found) if name else NO_VALUE for name in node.outputs]
        if folded:
            return self._evaluated(node, emitter)
        raise UnsupportedError(refusals(node))

    def _has_bfloat16_input(self, node: Node) -> bool:
        kinds = {value.name: value.type.tensor_type.elem_type for value in self.graph.input}
        return any(kinds.get(name) == onnx.TensorProto.BFLOAT16 for name in node.inputs)

    def _evaluated(self, node: Node, emitter: Emitter) -> Sequence[Value]:
        operands = [emitter.stored(i) if n else None for i, n in enumerate(node.inputs)]
        names = [name or node.name for name in node.outputs]
        arrays, width = evaluate(node, operands), width_of_bounds(node, operands)
        return [
            Constant(
                name,
                a.shape,
                a.dtype,
                lambda a=a: a,
                None if emitter.scope else (name,),
                width=width,
            )
            for name, a in zip(names, arrays, strict=False)
        ]

    def _imported(self, node: Node, emitter: Emitter) -> Sequence[Value]:
        operands = [emitter.values[name] for name in node.inputs if name]
        is_list = any(isinstance(value, TensorList) for value in operands)
        if is_list and node.operator not in SEQUENCE_OPERATORS:
            raise node.unsupported("of a sequence of tensors; export the model with tensors")
        named = [emitter.labels.get(v) for v in operands if isinstance(v, SSAValue)]
        if any(named) and node.operator not in TAKES_LABELS:
            raise node.unsupported(
                "on text: labels that are strings are integers here; make them graph outputs, and "
                "do the rest in the application"
            )
        result = self._operator(node, emitter)(node, emitter)
        if unread := node.unread():
            raise node.malformed(f"{node.operator} has no attribute '{unread[0]}'; remove it")
        if named and (names := named[0]) and node.operator in KEEPS_LABELS:
            assert isinstance(result, SSAValue)
            emitter.labels[result] = names
        if isinstance(result, SSAValue | Constant):
            return [result, *(result for _ in node.outputs[1:])]
        return result

    def _operator(self, node: Node, emitter: Emitter) -> OperatorImporter:
        """Return the importer of the operator of `node`, for extents of operands as they are."""
        sized = any(emitter.table.has(emitter.values[name]) for name in node.inputs if name)
        decides = SIZE_OPERANDS.get(node.operator, ())
        if sized or any(node.has_input(i) and not node.is_constant(i) for i in decides):
            # Few models have such extents.
            from ceras_ir.frontends.onnx.extents.registry import imported

            return imported
        return OPERATORS[node.operator]

    def _subgraph(self, name: str, emitter: Emitter, bound: Mapping[str, Value]) -> Sequence[Value]:
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
        Emit `graph` as part of the current node with the inputs `bound`, and return the outputs.
        The graph is the `attribute` of the node or, if `attribute` is `None`, the function body of
        the operator, which cannot use outer values.
        """
        outer, node, scope = emitter.values, emitter.node, emitter.scope
        refused: list[Finding] = []
        # The name of a result in the outer graph is unique.
        emitter.scope = (*scope, next(filter(None, node.outputs), node.name), attribute or "")
        try:
            if len(scope) > 2 * MAX_NESTING_DEPTH:
                raise node.unsupported(f"more than {MAX_NESTING_DEPTH} nested graphs; flatten it")
            own = initializers(graph, self.folder, emitter.scope, refused)
            if refused:
                raise UnsupportedError(refused)
            emitter.values = {**(outer if attribute else {}), **own, **bound}
            constants = {n for n, v in emitter.values.items() if isinstance(v, Constant)}
            outputs = [text(value.name) for value in graph.output]
            origins = inner_origins(node, bound, sees_outer=attribute is not None)
            origins.update(dict.fromkeys(own, frozenset[str]()))
            nodes = ordered_nodes(graph, opset, set(emitter.values), constants, origins, outputs)
            self._emit(nodes, emitter, outputs)
            results = [emitter.values[name] for name in outputs]
            self._check_extents(node, emitter, attribute, outputs)
            return results
        finally:
            emitter.values, emitter.node, emitter.scope = outer, node, scope

    def _check_extents(
        self, node: Node, emitter: Emitter, attribute: str | None, outputs: Sequence[str]
    ) -> None:
        """Refuse results of loops and of computed branches with extents that data decide."""
        if attribute is None or (node.operator == "If" and node.is_constant(0)):
            return
        for name in outputs:
            if emitter.table.has(emitter.values[name]):
                raise node.unsupported(
                    f"a result '{name}' of its {attribute} with extents that data decide; state "
                    "them as numbers with --shape"
                )

    def _sizes(self, emitter: Emitter) -> dict[str, SSAValue]:
        """Return the shape of each output with extents that data decide, by a new name."""
        names = [text(value.name) for value in self.graph.output]
        found: dict[str, SSAValue] = {}
        for name in names:
            if emitter.table.has(value := emitter.values[name]):
                from ceras_ir.frontends.onnx.extents.movement import shape_tensor

                new = f"{name}_shape"
                while new in names or new in found:
                    new += "_"
                emitter.node = Node(onnx.NodeProto(name=new, op_type="graph output"), 0)
                shape = shape_tensor(emitter, emitter.table.of(value), new)
                found[new] = emitter.materialize(shape)
        return found

    def _result(self, emitter: Emitter, value: onnx.ValueInfoProto) -> SSAValue:
        emitter.node = Node(onnx.NodeProto(name=value.name, op_type="graph output"), 0)
        if isinstance(emitter.values[value.name], TensorList):
            raise emitter.node.unsupported("a sequence; export the model with tensors")
        known = emitter.values[value.name]
        if emitter.table.has(known):
            from ceras_ir.frontends.onnx.extents.statements import filled

            known = filled(emitter, known, emitter.table.of(known), 0.0)
        result = emitter.materialize(known)
        is_text = value.type.tensor_type.elem_type == onnx.TensorProto.STRING
        if is_text and result not in emitter.labels:
            raise emitter.node.unsupported("text that is no label of a classifier; remove it")
        if (message := other_type(value, result)) is not None:
            raise emitter.node.wrong(message)
        if (element := quantized_element(result)) is not None and element.width < BYTE_BITS:
            raise emitter.node.unsupported(f"{element.width}-bit integers; dequantize them")
        # Exporters write wrong shapes. Runtimes ignore the declared shape and warn too.
        if (message := other_shape(value, result, self.graph)) is not None:
            remark(f"import: warning: output '{text(value.name)}' {message}, which is used")
        return result


def _has_empty_operand(node: Node, emitter: Emitter) -> bool:
    if node.operator in VALUE_PRESERVING or node.subgraphs() or not node.has_input(0):
        return False
    return not prod(shape_of_value(emitter.value(0)))


def _reachable_graphs(node: Node, emitter: Emitter) -> Sequence[onnx.GraphProto]:
    graphs = node.subgraphs()
    if node.operator != "If" or not node.has_input(0):
        return graphs
    condition = emitter.values[node.inputs[0]]
    if not isinstance(condition, Constant) or prod(condition.shape) != 1:
        return graphs
    return [node.subgraph("then_branch" if condition.load().item() else "else_branch")]
