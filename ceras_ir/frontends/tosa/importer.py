"""Import the functions of a TOSA text as a module: one function, emitted operation by operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import onnx
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.folding import computed
from ceras_ir.frontends.onnx.emission.values import Constant, array_of_numbers, name_loc
from ceras_ir.frontends.onnx.emission.values import Value as EmittedValue
from ceras_ir.frontends.onnx.model.model_file import MAX_TENSOR_ELEMENTS
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.model.signature import GRAPH_INPUT
from ceras_ir.frontends.tosa import operators
from ceras_ir.frontends.tosa.operation import (
    OPERATIONS,
    PLAIN,
    REFUSED,
    Operation,
    unsupported_elements,
)
from ceras_ir.frontends.tosa.scales import choose_scales
from ceras_ir.frontends.tosa.text.attributes import OPEN, Elements, TensorText, dtype_of
from ceras_ir.frontends.tosa.text.reader import (
    Argument,
    TextFunction,
    TextModule,
    TextOperation,
)
from ceras_ir.frontends.tosa.values import STORAGE, Value, as_plain, stored_type
from ceras_ir.frontends.tosa.verifier import CONSTANTS, verify
from ceras_ir.frontends.tosa.zero_points import zero_points
from ceras_ir.network.function import MODEL_TYPE, NAME, STATE
from ceras_ir.support.diagnostics import (
    Finding,
    InputError,
    UnsupportedError,
    did_you_mean,
)

MAIN = "main"

NAME_ATTRIBUTES = ("ml_program.identifier", "tosa.tensor_name", "tf_saved_model.index_path")
"""Attributes of arguments and results with their names."""

MAX_CALLS, MAX_DEPTH = 10_000, 32
"""The number of calls that are inlined, and of calls inside of calls."""

MAX_OPERATIONS = 1 << 18
"""The number of operations after calls are inlined."""

MODEL_TYPES = {"f16": "float16", "f64": "float64"}
"""Float types of inputs and outputs that array files keep."""

EXAMPLE_EXTENT = 64
"""The extent of an open dimension in the example of a message."""

REMEDY = "end the network before it, or express it with other operations of TOSA"


class Importer:
    """The import of a single TOSA text."""

    def __init__(
        self,
        module: TextModule,
        *,
        batch: int,
        shapes: Mapping[str, Sequence[int]],
        values: Mapping[str, Sequence[float]],
    ):
        self.text = module
        self.batch = batch
        self.shapes = shapes
        self.set_values = values
        self.emitter = Emitter(Block(), self._no_subgraph)
        self.states: dict[str, SSAValue] = {}
        self.names: set[str] = set()
        self.refused: list[Finding] = []
        self.bound = Counter[SSAValue]()
        self.calls = self.operations = 0

    @staticmethod
    def _no_subgraph(
        name: str, emitter: Emitter, bound: Mapping[str, EmittedValue]
    ) -> Sequence[EmittedValue]:
        raise emitter.node.unsupported(f"the subgraph '{name}'")

    def module(self) -> ModuleOp:
        """Return the imported module, with the function `main`."""
        for each in iter_modules(operators.__path__, f"{operators.__name__}."):
            import_module(each.name)
        verify(self.text)
        main = self._main()
        names = self._argument_names(main.arguments)
        for name in (*self.shapes, *self.set_values):
            if name not in names:
                raise InputError(f"no input named '{name}'{did_you_mean(name, names)}")
        block = self.emitter.block
        attributes: list[DictionaryAttr] = []
        values: list[Value | None] = []
        for argument, name in zip(main.arguments, names, strict=True):
            values.append(self._input(main, argument, name, attributes))
        state_attributes = self._add_states()
        found = self._body(main, values, ())
        if self.refused:
            raise UnsupportedError(self.refused)
        results: list[SSAValue] = []
        for value in found:
            assert value is not None
            results.append(self.emitter.materialize(self._stored_or_plain(value)))
        if not results:
            raise InputError(f"the function @{main.name} returns nothing")
        results += self.states.values()
        entries = [
            _interface(result, name)
            for result, name in zip(main.results, _result_names(main.results), strict=True)
        ]
        entries += [DictionaryAttr({NAME: StringAttr(f"{n}/next")}) for n in self.states]
        end = ReturnOp(*results)
        block.add_op(end)
        choose_scales(block)
        function = FuncOp(
            MAIN,
            ([a.type for a in block.args], [r.type for r in end.arguments]),
            Region(block),
            arg_attrs=ArrayAttr([*attributes, *state_attributes]),
            res_attrs=ArrayAttr(entries),
        )
        return ModuleOp([function])

    def _stored_or_plain(self, value: Value) -> EmittedValue:
        if isinstance(value, SSAValue | Constant):
            return value
        return as_plain(self.emitter, value)

    def _main(self) -> TextFunction:
        bodies = {n: f for n, f in self.text.functions.items() if f.operations is not None}
        public = [f for f in bodies.values() if not f.is_private]
        if MAIN in bodies:
            return bodies[MAIN]
        if len(bodies) == 1:
            return next(iter(bodies.values()))
        if len(public) == 1:
            return public[0]
        listed = ", ".join(f"@{n}" for n in list(bodies)[:5])
        found = f"got {listed}" if listed else "got no function"
        raise InputError(f"expected a function @{MAIN}, or a single function with a body; {found}")

    def _argument_names(self, arguments: Sequence[Argument]) -> list[str]:
        """
        Return distinct names of the arguments of the network: the name in the attributes or in the
        location of each, or the name in the text.
        """
        found: list[str] = []
        for i, argument in enumerate(arguments):
            written = argument.name.removeprefix("%")
            name = _given_name(argument) or self.text.location_name(argument.location)
            name = name or (written if not written.isdigit() else f"input{i}")
            found.append(name if name not in found else f"{name}_{i}")
        return found

    def _input(
        self, main: TextFunction, argument: Argument, name: str, attributes: list[DictionaryAttr]
    ) -> Value:
        kind = argument.type
        node = Node(onnx.NodeProto(name=name, op_type=GRAPH_INPUT, output=[name]), 0)
        if not isinstance(kind, TensorText) or kind.shape is None:
            raise node.unsupported(f"the type {kind}; use a ranked tensor")
        if kind.element not in PLAIN:
            raise node.unsupported(unsupported_elements(kind.element))
        shape = self._shape(kind.shape, name, node)
        if int(np.prod(shape, dtype=object)) > MAX_TENSOR_ELEMENTS:
            raise node.wrong(f"the shape {list(shape)} has too many elements")
        if name in self.set_values:
            dtype = dtype_of(kind.element)
            assert dtype is not None
            array = array_of_numbers(name, self.set_values[name], dtype, shape)
            return Constant.of(name, array)
        element = PLAIN[kind.element]
        if kind.element in STORAGE:
            point = zero_points(self.text, main).get(argument.name, 0)
            element = stored_type(STORAGE[kind.element], point)
        block = self.emitter.block
        value = block.insert_arg(TensorType(element, shape), len(block.args))
        value.location = name_loc(name)
        attributes.append(_interface(argument, name))
        return value

    def _shape(self, shape: tuple[int, ...], name: str, node: Node) -> tuple[int, ...]:
        if (given := self.shapes.get(name)) is not None:
            if len(given) != len(shape):
                raise InputError(f"--shape {name}: expected {len(shape)} extents")
            return tuple(given)
        found = tuple(self.batch if n == OPEN else n for n in shape[:1])
        if OPEN in shape[1:]:
            example = [*found, *(EXAMPLE_EXTENT if n == OPEN else n for n in shape[1:])]
            raise node.unsupported(
                "open dimensions; set the shape, for example with --shape "
                f"{name}={'x'.join(map(str, example))}"
            )
        return found + shape[1:]

    def _add_states(self) -> list[DictionaryAttr]:
        """
        Add an argument for each variable, and return the attributes of these arguments. A variable
        is a state that starts from zeros; other initial values are an error.
        """
        attributes: list[DictionaryAttr] = []
        for name, op in self.text.variables.items():
            node = self._node(op.line, op.column, op.name, op.location)
            kind, initial = op.attributes.get("type"), op.attributes.get("initial_value")
            name = name.removeprefix("@")
            if not isinstance(kind, TensorText) or kind.shape is None or OPEN in kind.shape:
                raise node.unsupported(f"the variable '{name}' without a fixed shape")
            if kind.element not in PLAIN:
                raise node.unsupported(unsupported_elements(kind.element))
            if isinstance(initial, Elements) and np.any(self.text.array(initial)):
                raise node.unsupported(
                    f"the variable '{name}' with initial values other than 0; pass it as an input"
                )
            block = self.emitter.block
            value = block.insert_arg(TensorType(PLAIN[kind.element], kind.shape), len(block.args))
            value.location = name_loc(name)
            self.states[name] = value
            entries = {NAME: StringAttr(name), STATE: StringAttr(f"{name}/next")}
            attributes.append(DictionaryAttr(entries))
        return attributes

    def _node(self, line: int, column: int, name: str, location: str) -> Node:
        """
        Return a node for the operation at `line` and `column` (from 1), by which shared importers
        of ONNX report errors. The label is the name in the location, or the operation and the
        position.
        """
        place = f"{line}:{column}"
        label = self.text.location_name(location)
        if not label or label in self.names:
            label = f"{label or name.rpartition('.')[2]} at {place}"
        self.names.add(label)
        return Node(onnx.NodeProto(name=label, op_type=name, output=[label]), 0)

    def _body(
        self, function: TextFunction, arguments: Sequence[Value | None], callers: tuple[str, ...]
    ) -> Sequence[Value | None]:
        """
        Emit the operations of `function` for the given `arguments`. Return the results, or `None`
        for each result that depends on an unsupported operation. `callers` are the names of the
        functions that are being called.
        """
        values: dict[str, Value | None] = {}
        for argument, value in zip(function.arguments, arguments, strict=True):
            self._bind(values, argument.name, value)
        ops = function.operations or []
        self.operations += len(ops)
        if self.operations > MAX_OPERATIONS:
            raise InputError(f"calls of functions with more than {MAX_OPERATIONS} operations")
        uses: dict[str, int] = {}
        for op in ops:
            for name in op.operands:
                uses[name] = uses.get(name, 0) + 1
        points = zero_points(self.text, function)
        for op in ops:
            self.emitter.node = self._node(op.line, op.column, op.name, op.location)
            if op.name == "func.return":
                return [values[name] for name in op.operands]
            known = {n: v for n in op.operands if (v := values[n]) is not None}
            if len(known) < len(set(op.operands)):
                values |= dict.fromkeys(op.results)
                continue
            try:
                if op.name == "func.call":
                    found = self._call(op, [known[n] for n in op.operands], callers)
                else:
                    found = self._emit(op, known, uses, points)
            except UnsupportedError as error:
                self.refused += self._at(op, error).findings
                found = [None] * len(op.results)
            except InputError as error:
                raise self._at(op, error) from None
            for name, value in zip(op.results, found, strict=True):
                self._bind(values, name, value)
        raise AssertionError("a function ends with func.return")

    def _bind(self, values: dict[str, Value | None], name: str, value: Value | None) -> None:
        values[name] = value
        if isinstance(value, SSAValue):
            self.bound[value] += 1

    def _at(self, op: TextOperation, error: InputError) -> InputError:
        """Return the error with the line and the column of `op` after the names of nodes."""
        place = f"at {op.line}:{op.column}"
        findings = [
            f if " at " in f.node else replace(f, node=f"{f.node} {place}") for f in error.findings
        ]
        return type(error)(findings) if findings else error

    def _call(
        self, op: TextOperation, arguments: Sequence[Value], callers: tuple[str, ...]
    ) -> Sequence[Value | None]:
        """
        Emit the operations of the function that `op` calls, and return the results. Recursion is an
        error.
        """
        node = self.emitter.node
        name = str(op.attributes.get("callee", "")).removeprefix("@")
        self.calls += 1
        if name in callers or len(callers) > MAX_DEPTH or self.calls > MAX_CALLS:
            raise node.wrong(f"@{name} calls itself; a network has no recursion")
        return self._body(self.text.functions[name], arguments, (*callers, name))

    def _emit(
        self,
        op: TextOperation,
        values: Mapping[str, Value],
        uses: Mapping[str, int],
        points: Mapping[str, int],
    ) -> Sequence[Value | None]:
        node, emitter = self.emitter.node, self.emitter
        kind = op.name.removeprefix("tosa.")
        if op.name in CONSTANTS:
            return [self._constant(op, node)]
        operation = Operation(op, self.text, emitter, values, uses, self.bound, points, self.states)
        importer = OPERATIONS.get(kind) if op.name.startswith("tosa.") else None
        if importer is None:
            raise node.unsupported(
                REFUSED.get(kind, f"not an operation that is imported; {REMEDY}")
            )

        def imported() -> list[Value]:
            found = importer(operation)
            return list(found) if isinstance(found, Sequence) else [found]

        given = list(values.values())
        if given and op.results and all(isinstance(v, Constant) for v in given):

            def plain() -> list[EmittedValue]:
                return [self._stored_or_plain(v) for v in imported()]

            found: list[Value] = [*computed(node, emitter, plain)]
        else:
            found = imported()
        if len(found) != len(op.results) and op.results:
            raise node.wrong(f"has {len(op.results)} results, expected {len(found)}")
        if found:
            operation.expect_result(found[0])
        return found

    def _constant(self, op: TextOperation, node: Node) -> Value:
        value = op.attributes.get("values", op.attributes.get("value"))
        if not isinstance(value, Elements):
            raise node.wrong("the constant has no elements")
        dtype, shape = dtype_of(value.type.element), value.type.shape
        assert shape is not None
        if dtype is None:
            raise node.unsupported(unsupported_elements(value.type.element))
        array = self.text.array(value)
        return Constant(node.name, shape, dtype, lambda: array, (op.line, op.column))


def _interface(argument: Argument, name: str) -> DictionaryAttr:
    entries: dict[str, Attribute] = {NAME: StringAttr(name)}
    kind = argument.type
    if isinstance(kind, TensorText) and kind.element in MODEL_TYPES:
        entries[MODEL_TYPE] = StringAttr(MODEL_TYPES[kind.element])
    return DictionaryAttr(entries)


def _given_name(argument: Argument) -> str:
    for key in NAME_ATTRIBUTES:
        value = argument.attributes.get(key)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str) and value:
            return value
    return ""


def _result_names(results: Sequence[Argument]) -> list[str]:
    found: list[str] = []
    for i, result in enumerate(results):
        name = _given_name(result) or f"output{i}"
        found.append(name if name not in found else f"{name}_{i}")
    return found
