"""
Import nodes without an importer: operators of constants, and operators that ONNX defines as
functions.

Operators of constants, mostly of shapes, are computed at import. Operators in `FOLDABLE`, and
operators without an importer, are computed by the reference evaluator of ONNX. For other operators,
the interpreter computes the operations that the importer emits. The size of results is bounded. An
operator without an importer is otherwise imported as the body of its function, for the types of the
operands. So an operator of any opset is supported as far as the operators of the body are.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np
import onnx
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region, SSAValue
from xdsl.utils.hints import isa

from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.values import Constant, Value, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.model.functions import bind_attributes
from ceras_ir.frontends.onnx.model.model_file import Array
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.interpreters.registry import interpreter_of

MAX_LIST_ENTRIES = 8
"""Maximum number of entries of an operand that may be a shape, pads or scales."""

MAX_FOLDED_ELEMENTS = 1 << 27

ELEMENTWISE = frozenset(
    (
        *("Abs", "Add", "And", "Cast", "Ceil", "Clip", "Div", "Equal", "Exp", "Floor", "Greater"),
        *("GreaterOrEqual", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not"),
        *("Or", "Pow", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sqrt", "Sub", "Sum"),
        *("Tanh", "Where", "Xor"),
    )
)
"""Operators with a result of the shape to which the operands are broadcast."""

SHRINKING = frozenset(
    (
        *("ArgMax", "ArgMin", "Concat", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
        *("ReduceSum", "Slice", "Split"),
    )
)
"""Operators with results that have no more elements than their operands."""

FOLDABLE = ELEMENTWISE | SHRINKING | {"ConstantOfShape", "Expand", "Gather", "Range", "Tile"}
"""Operators that are evaluated if all operands are constants."""

NEVER_FOLDED = frozenset(
    (
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
        *("RandomUniformLike", "ImageDecoder", "Optional", "StringNormalizer", "TfIdfVectorizer"),
    )
)
"""Operators with random results, or with results that are no tensors."""

MAX_UNKNOWN_ELEMENTS = 1 << 24
"""Maximum size of a result that depends on operand values, such as a length or scale."""

EVALUATION_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""The exceptions of the reference evaluator for invalid operands."""


class Evaluator(Protocol):
    """The methods of ONNX's reference evaluator that the importer uses, for type checks."""

    def run(self, output_names: None, feed_inputs: dict[str, Array], /) -> object: ...


def reference_evaluator(node: Node) -> Evaluator:
    """Return a reference evaluator of ONNX for the model that consists of `node`."""
    # Slow to load, and few models need it.
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(node.proto, opsets={"": node.opset})


def evaluate(node: Node, operands: Sequence[Array | None]) -> Sequence[Array]:
    """
    Return the results of `node` for constant operands, computed by ONNX's reference evaluator.
    Raise an error if they would be too large.
    """
    try:
        elements = _result_elements(node, [a for a in operands if a is not None])
        if elements > MAX_FOLDED_ELEMENTS:
            raise node.wrong(f"a constant of {elements} elements is too large to fold")
        feeds = {
            name: array
            for name, array in zip(node.inputs, _of_one_width(operands), strict=True)
            if name and array is not None
        }
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # NumPy warns about means of no elements.
            warnings.simplefilter("ignore", RuntimeWarning)
            results = reference_evaluator(node).run(None, feeds)
    except EVALUATION_ERRORS as e:
        raise node.wrong(f"cannot be evaluated: {first_line(e)}") from None
    if not isa(results, list[np.ndarray]):
        raise node.wrong("cannot be evaluated: a result is not a tensor")
    return results


def computed(
    node: Node, emitter: Emitter, imported: Callable[[], Sequence[Value]]
) -> Sequence[Value]:
    """
    Return the results of `node` as constants, if all operands are constants. `imported` emits the
    operations into a temporary block, and the interpreter executes them.
    """
    with emitter.separate_block() as block:
        values = imported()
        results = [v for v in values if isinstance(v, SSAValue)]
        block.add_op(ReturnOp(*results))
        main = FuncOp("main", ([], [r.type for r in results]), Region(block))
        with np.errstate(all="ignore"):
            found = iter(interpreter_of(ModuleOp([main])).call_op("main", ()))
    arrays: list[Value] = []
    for i, value in enumerate(values):
        if isinstance(value, SSAValue):
            array = np.asarray(next(found))
            name = node.outputs[i] if node.has_output(i) else node.name
            key = None if emitter.scope else ("computed", name, i)
            value = Constant(name, array.shape, array.dtype, lambda a=array: a, key)
        arrays.append(value)
    return arrays


def _of_one_width(operands: Sequence[Array | None]) -> Sequence[Array | None]:
    """
    Convert all floats to the widest float type among them. The importer may have narrowed some of
    them to float32.
    """
    floats = [a.dtype for a in operands if a is not None and a.dtype.kind == "f"]
    if len(set(floats)) < 2:
        return operands
    widest = np.result_type(*floats)
    return [a.astype(widest) if a is not None and a.dtype.kind == "f" else a for a in operands]


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _result_elements(node: Node, arrays: Sequence[Array]) -> int:
    """
    Return an upper bound of the number of elements of the results, so that it can be checked before
    they are allocated.
    """
    operator, shapes = node.operator, [a.shape for a in arrays]

    def count(extents: Array) -> int:
        return prod(int(i) for i in extents.reshape(-1))

    match operator:
        case "ConstantOfShape":
            return count(arrays[0])
        case "Expand":
            extents = zip_longest(reversed(shapes[0]), arrays[1].reshape(-1)[::-1], fillvalue=1)
            return prod(max(a, int(b)) for a, b in extents)
        case "Tile":
            return prod(shapes[0]) * count(arrays[1])
        case "Range":
            start, limit, delta = (float(a.reshape(-1)[0]) for a in arrays)
            return max(0, int((limit - start) / delta) + 1)
        case "MelWeightMatrix":
            return (int(arrays[1].reshape(-1)[0]) // 2 + 1) * count(arrays[0])
        case "Gather":
            along = shapes[0][node.integer("axis", 0)]
            return prod(shapes[0]) // max(along, 1) * prod(shapes[1])
        case _ if operator in ELEMENTWISE:
            return prod(np.broadcast_shapes(*shapes))
        case _ if operator in SHRINKING:
            return sum(map(prod, shapes))
        case _:
            lists = [a for a in arrays if a.ndim < 2 and a.size <= MAX_LIST_ENTRIES]
            factors = [float(v) for a in lists for v in a.reshape(-1) if a.dtype.kind in "iuf"]
            factor = prod(max(1.0, abs(v)) for v in factors if v == v)
            total = sum(map(prod, shapes))
            return total if total * factor <= MAX_UNKNOWN_ELEMENTS else MAX_FOLDED_ELEMENTS + 1


RANDOM = frozenset({"Bernoulli"})
"""Operators with a body that draws random numbers, which are not imported."""


@runtime_checkable
class FunctionSchema(Protocol):
    """The methods of ONNX's operator schemas that the importer uses, for type checks."""

    has_function: bool
    has_context_dependent_function: bool
    function_opset_versions: list[int]
    context_dependent_function_opset_versions: list[int]
    attributes: dict[str, onnx.defs.OpSchema.Attribute]

    def get_function_with_opset_version(self, version: int, /) -> bytes: ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: list[bytes], /
    ) -> bytes: ...


def has_body(node: Node) -> bool:
    """
    Return whether ONNX defines the operator of `node` as a function. The body of the function can
    then be imported instead.
    """
    return _schema(node) is not None


def body_of(
    node: Node, operands: Sequence[Value | None]
) -> tuple[onnx.GraphProto, int, Mapping[str, Value]] | None:
    """
    Return the body by which ONNX defines the operator of `node` as a function, restricted to the
    outputs that are used; the opset of the body; and the operands of `node` by the names of the
    body's inputs. Return `None` if there is no body for the types of the operands.
    """
    schema = _schema(node)
    if schema is None:
        return None
    if schema.has_function:
        data = schema.get_function_with_opset_version(_version(schema, node))
    else:
        types = [_type(operand).SerializeToString() for operand in operands]
        data = schema.get_context_dependent_function_with_opset_version(
            _version(schema, node), node.proto.SerializeToString(), types
        )
    if not data:
        return None
    function = onnx.FunctionProto.FromString(data)
    bound = dict(zip(function.input, operands, strict=False))
    absent = {name for name in function.input if bound.get(name) is None}
    graph = onnx.GraphProto(name=node.name)
    attributes = (*function.attribute_proto, *schema_defaults(schema), *node.proto.attribute)
    given = {a.name: a for a in attributes}
    for inner in function.node:
        copy = graph.node.add()
        copy.CopyFrom(inner)
        copy.name = f"{node.name}/{inner.name or ''.join(inner.output[:1])}"
        _omit(copy, absent)
        bind_attributes(copy, given)
    pairs = zip(function.output, node.outputs, strict=False)
    graph.output.extend(onnx.ValueInfoProto(name=inner) for inner, name in pairs if name)
    opset = next((o.version for o in function.opset_import if not o.domain), node.opset)
    return graph, opset, {name: v for name, v in bound.items() if v is not None}


def schema_defaults(schema: FunctionSchema) -> Sequence[onnx.AttributeProto]:
    return [a.default_value for a in schema.attributes.values() if a.default_value.name]


def _omit(proto: onnx.NodeProto, absent: set[str]) -> None:
    names = ["" if name in absent else name for name in proto.input]
    del proto.input[:]
    proto.input.extend(names)
    for attribute in proto.attribute:
        for inner in attribute.g.node:
            _omit(inner, absent)


def _schema(node: Node) -> FunctionSchema | None:
    domain, _, name = node.operator.rpartition("::")
    if name in RANDOM:
        return None
    try:
        schema: object = onnx.defs.get_schema(name, node.opset if not domain else 1, domain)
    except onnx.defs.SchemaError:
        return None
    assert isinstance(schema, FunctionSchema)
    return schema if schema.has_function or schema.has_context_dependent_function else None


def _version(schema: FunctionSchema, node: Node) -> int:
    versions = (
        schema.function_opset_versions
        if schema.has_function
        else schema.context_dependent_function_opset_versions
    )
    return max((v for v in versions if v <= node.opset), default=min(versions))


def _type(value: Value | None) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    number = onnx.helper.np_dtype_to_tensor_dtype(dtype_of_value(value))
    return onnx.helper.make_tensor_type_proto(number, shape_of_value(value))
