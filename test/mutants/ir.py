"""
Create structured mutants of IR text: one to three changes to the operations, operands,
attributes, types and shapes of a module of any level, printed in generic form.

The changes apply to the parsed module and not to the bytes, so that nearly all mutants parse.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from io import StringIO
from pathlib import Path
from random import Random

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue
from xdsl.printer import Printer
from xdsl.utils.hints import isa

from ceras_ir.dialects.quant import UniformType
from ceras_ir.pipeline.context import load_context, load_universe
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.verification import verify_module

ROOT = Path(__file__).parents[2]
INTEGERS = (0, 1, -1, 2, 3, 7, 127, 128, 255, 1 << 15, 1 << 31, -(1 << 31), 1 << 40, (1 << 63) - 1)
EXTENTS = (0, 1, 2, 3, 5, 16, 17, 1 << 16, 1 << 40, -1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, 3e38, float("inf"), float("-inf"), float("nan"))
SCALES = (0.5, 1.0, 0.1, 2.0**-40, 1e30, 1e-30, 3.0)
WORDS = ("", "f32", "i16", "table", "dram", "inp", "wgt", "acc", "main", "x", "é\n", "a" * 300)
ELEMENTS: tuple[Attribute, ...] = (f32, f64, i1, i8, i16, i32, i64, IndexType())
MAX_TEXT = 20_000
"""The maximum number of characters of a source text: larger texts only cost time."""


@cache
def sources() -> tuple[str, ...]:
    """Return texts of all levels, from the lit tests and examples."""
    paths = sorted([*ROOT.glob("test/lit/**/*.mlir"), *ROOT.glob("examples/*.mlir")])
    parts = [part for path in paths for part in path.read_text().split("// -----")]
    return tuple(part for part in parts if "func.func" in part and len(part) <= MAX_TEXT)


def parse(text: str) -> ModuleOp:
    return parse_text(load_context(load_universe()), text, "mutant.mlir")


def mutant(seed: int) -> str:
    """Return the text of mutant number `seed`; failed attempts are repeated."""
    random = Random(seed)
    while True:
        with suppress(Exception):
            return _mutant(random)


def _mutant(random: Random) -> str:
    module = parse(random.choice(sources()))
    verify_module(module)
    operations = [op for op in module.walk() if op is not module]
    everywhere = random.random() < 0.4
    for _ in range(random.choice((1, 1, 1, 2, 3)) - everywhere):
        random.choice(CHANGES)(random, random.choice(operations), operations)
        operations = [op for op in module.walk() if op is not module]
    Printer(stream := StringIO(), print_generic_format=True).print_op(module)
    text = stream.getvalue() + "\n"
    if everywhere:
        # Replace all uses of a type by another type, so that most operations remain consistent.
        kind = random.choice([value.type for value in _values(operations)])
        text = text.replace(str(kind), str(changed(random, kind)))
    return text


def _values(operations: Sequence[Operation]) -> list[SSAValue]:
    """List all values that an operand can refer to."""
    arguments = [a for op in operations for r in op.regions for b in r.blocks for a in b.args]
    return [*arguments, *(value for op in operations for value in op.results)]


def change_operand(random: Random, op: Operation, operations: Sequence[Operation]) -> None:
    values = _values(operations)
    if not op.operands:
        return
    operands = list(op.operands)
    match random.randrange(4):
        case 0:
            random.shuffle(operands)
        case 1:
            operands.pop(random.randrange(len(operands)))
        case 2:
            operands.insert(random.randrange(len(operands) + 1), random.choice(values))
        case _:
            operands[random.randrange(len(operands))] = random.choice(values)
    op.operands = operands


def change_operation(random: Random, op: Operation, operations: Sequence[Operation]) -> None:
    block = op.parent
    assert block is not None
    match random.randrange(4):
        case 0:
            block.insert_op_before(op.clone(), op)
        case 1:
            others = [o for o in operations if o.parent is not None and not op.is_ancestor(o)]
            if others and not any(u.operation is op for r in op.results for u in r.uses):
                other = random.choice(others)
                assert other.parent is not None
                op.detach()
                other.parent.insert_op_before(op, other)
        case 2:
            replacements = [v for v in _values(operations) if v not in op.results]
            for result in op.results:
                if replacements:
                    result.replace_all_uses_with(random.choice(replacements))
            if not any(result.uses.get_length() for result in op.results):
                op.detach()
        case _:
            kinds = [o for o in operations if type(o) is not type(op) and not o.regions]
            if kinds and not op.regions:
                _become(op, random.choice(kinds))


def _become(op: Operation, kind: Operation) -> None:
    """Replace `op` by an operation like `kind` with the same operands, attributes and results."""
    new = type(kind).create(
        operands=op.operands,
        result_types=[r.type for r in op.results],
        properties={**kind.properties, **op.properties},
        attributes=dict(op.attributes),
    )
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    for old, result in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    op.detach()


def change_attribute(random: Random, op: Operation, operations: Sequence[Operation]) -> None:
    tables = [table for table in (op.properties, op.attributes) if table]
    if not tables:
        return
    table = random.choice(tables)
    name = random.choice(sorted(table))
    match random.randrange(5):
        case 0:
            del table[name]
        case 1:
            all_known = [
                a for o in operations for a in (*o.properties.values(), *o.attributes.values())
            ]
            table[name] = random.choice(all_known)
        case _:
            table[name] = changed(random, table[name])


def add_attribute(random: Random, op: Operation, operations: Sequence[Operation]) -> None:
    known = sorted({n for o in operations for n in (*o.attributes, *o.properties)}) or ["x"]
    others = ("graph.precision", "graph.form", "graph.exponent", "graph.range", "mem.block")
    op.attributes[random.choice((*known, *others))] = random_attribute(random)


def change_type(random: Random, op: Operation, operations: Sequence[Operation]) -> None:
    if isinstance(op, FuncOp):
        if "function_type" not in op.properties:
            return
        entries = [op.function_type.inputs, op.function_type.outputs]
        ends = random.choice(entries)
        if not len(ends):
            return
        index = random.randrange(len(ends))
        new = changed(random, ends.data[index])
        lists = [list(e.data) for e in entries]
        lists[entries.index(ends)][index] = new
        if ends is entries[0] and op.body.blocks and random.random() < 0.8:
            _retype(op.body.block.args[index], new)
        op.properties["function_type"] = type(op.function_type).from_lists(*lists)
        return
    if op.results:
        result = random.choice(op.results)
        _retype(result, changed(random, result.type))


def _retype(value: SSAValue, kind: Attribute) -> None:
    value._type = kind  # pyright: ignore


CHANGES: tuple[Callable[[Random, Operation, Sequence[Operation]], None], ...] = (
    change_operand,
    change_operation,
    change_attribute,
    change_attribute,
    add_attribute,
    change_type,
    change_type,
)


def random_attribute(random: Random) -> Attribute:
    """Draw a builtin attribute with values near limits."""
    integer = IntegerAttr(random.choice(INTEGERS), i64)
    choices: list[Attribute] = [
        integer,
        FloatAttr(random.choice(FLOATS), f32),
        StringAttr(random.choice(WORDS)),
        UnitAttr(),
        ArrayAttr([integer] * random.randrange(3)),
        DictionaryAttr({"x": integer}),
        DenseArrayBase.from_list(i64, random.choices(INTEGERS[:-1], k=random.randrange(5))),
        TensorType(f32, [random.choice(EXTENTS) for _ in range(random.randrange(5))]),
    ]
    return random.choice(choices)


def changed(random: Random, attribute: Attribute) -> Attribute:
    """Change a number, word, extent or element of `attribute`, or replace the attribute."""
    if random.random() < 0.08:
        return random_attribute(random)
    match attribute:
        case TensorType() | MemRefType():
            shape, element = list(attribute.get_shape()), attribute.element_type
            match random.randrange(4):
                case 0 if shape:
                    index = random.randrange(len(shape))
                    near = (2 * shape[index], shape[index] + 1, shape[index] // 2)
                    shape[index] = random.choice((*near, *EXTENTS))
                case 1 if shape:
                    shape.pop(random.randrange(len(shape)))
                case 2:
                    shape.insert(random.randrange(len(shape) + 1), random.choice(EXTENTS))
                case _:
                    element = changed_element(random, element)
            if isinstance(attribute, TensorType):
                return TensorType(element, shape)
            return MemRefType(element, shape, attribute.layout, attribute.memory_space)
        case IntegerAttr():
            number = attribute.value.data
            return IntegerAttr(_near(random, number), attribute.type)
        case IntAttr():
            return IntAttr(_near(random, attribute.data))
        case FloatAttr():
            return FloatAttr(random.choice(FLOATS), f32)
        case StringAttr():
            return StringAttr(random.choice(WORDS))
        case DenseArrayBase():
            listed = attribute.get_values() if isa(attribute, DenseArrayBase[IntegerType]) else ()
            values = list(listed)
            match random.randrange(3):
                case 0 if values:
                    values.pop()
                case 1:
                    values.append(random.choice(INTEGERS[:-1]))
                case _ if values:
                    index = random.randrange(len(values))
                    values[index] = max(min(_near(random, values[index]), 1 << 62), -1 << 62)
                case _:
                    pass
            return DenseArrayBase.from_list(i64, values)
        case ArrayAttr():
            entries = list(attribute.data)
            if entries:
                index = random.randrange(len(entries))
                entries[index] = changed(random, entries[index])
            return ArrayAttr(entries)
        case ParametrizedAttribute() if attribute.parameters:
            parameters = list(attribute.parameters)
            index = random.randrange(len(parameters))
            part = changed(random, parameters[index])
            # A parameter of another type cannot be printed.
            if type(part) is not type(parameters[index]):
                return attribute
            parameters[index] = part
            # Skip the verifier of the attribute: the printed text is parsed again.
            new = object.__new__(type(attribute))
            names = (name for name, _ in type(attribute).get_irdl_definition().parameters)
            for name, value in zip(names, parameters, strict=True):
                object.__setattr__(new, name, value)
            return new
        case _:
            return random_attribute(random)


def _near(random: Random, number: int) -> int:
    """Return a number near `number`, twice or half of it, or a number near a limit."""
    near = (number + 1, number - 1, 2 * number, number // 2, -number)
    return random.choice(near if random.random() < 0.6 else INTEGERS)


def changed_element(random: Random, element: Attribute) -> Attribute:
    """Draw another element type, or another scale or zero point of a quantized type."""
    if random.random() < 0.4:
        return random.choice(ELEMENTS)
    storage = random.choice((i8, i16, i32))
    count = random.choice((1, 1, 2, 3))
    scales = [random.choice(SCALES) for _ in range(count)]
    points = [random.choice((0, 3, -128, 127)) for _ in range(count)]
    if count == 1:
        return UniformType(scales[0], points[0], storage=storage)
    return UniformType(scales, points, storage=storage, axis=random.randrange(4))
