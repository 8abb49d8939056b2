"""
Print the C functions of layers. Layers share a function if they differ only in constants.

The steps of unrolled loops, the heads of attention and the equal blocks of deep networks are
compiled a single time: the differing constants become arguments. Numbers remain in the text, so
that the compiler knows all shapes. In a program for several lengths, numbers of a layer that depend
on the length become arguments, too.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from textwrap import fill

from xdsl.ir import SSAValue

from ceras_ir.backends.c.constants import ConstantPool
from ceras_ir.backends.c.explicit import explicit
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.names import comment
from ceras_ir.backends.c.shared_text import (
    INTEGER,
    LAYER_CONSTANT,
    Column,
    Segment,
    Text,
    joined,
    merge,
    segments_of,
)
from ceras_ir.dialects.graph import ConstantOp, Conv2dOp, MatmulOp, shape_of
from ceras_ir.support.diagnostics import node_name


@dataclass(frozen=True)
class SharedCall:
    """The C function that a layer calls, and the arguments that follow the pointers to values."""

    function: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Function:
    """The C function of layers that differ at most in numbers."""

    layer: Layer
    """The layer that defines the function."""
    body: str
    columns: Sequence[Column] = ()
    """The arguments for numbers, with a value for each layer."""
    also: Sequence[Layer] = ()
    """The other layers that call it."""

    @property
    def parameters(self) -> list[str]:
        declared = [text for text, _ in self.layer.parameters]
        return [*declared, *(f"{column.ctype} {column.name}" for column in self.columns)]


@dataclass(frozen=True)
class LayerFunctions:
    """The C functions of layers, and the call of each layer with code, by its index."""

    texts: Sequence[str]
    calls: Mapping[int, SharedCall]

    def is_own(self, layer: Layer) -> bool:
        """Return whether a layer defines the function that it calls."""
        call = self.calls.get(layer.index)
        return call is not None and call.function == function_name(layer)

    def absent_constants(self, pool: ConstantPool) -> str:
        """
        Return C macros for arguments that are constants of other builds: processors whose kernels
        do not use an argument.
        """
        conditions: defaultdict[str, set[str]] = defaultdict(set)
        for constant in pool.constants:
            conditions[constant.name.upper()].add(constant.condition)
        names = {name for call in self.calls.values() for name in call.arguments}
        return "".join(
            f"#if !defined({name})\n#define {name} NULL\n#endif\n"
            for name in sorted(names)
            if name in conditions and not _is_exhaustive(frozenset(conditions[name]))
        )


@cache
def _is_exhaustive(conditions: frozenset[str]) -> bool:
    """
    Return whether one of the preprocessor `conditions`, conjunctions of macros and negated macros,
    holds for all values of the macros.
    """
    wanted = [
        {part.lstrip("!"): not part.startswith("!") for part in condition.split(" && ") if part}
        for condition in conditions
    ]
    macros = sorted({macro for each in wanted for macro in each})
    values = (
        dict(zip(macros, bits, strict=True)) for bits in product((False, True), repeat=len(macros))
    )
    return all(any(each.items() <= value.items() for each in wanted) for value in values)


def layer_functions(layers: Iterable[Layer], pool: ConstantPool) -> LayerFunctions:
    """
    Return the functions of the layers of a network. Each is defined by the first layer that has it.
    """
    stored = equal_names(pool)
    functions = (Function(each, body_of(each, stored)) for each in layers if each.lines)
    return with_constants(functions, pool)


def body_of(layer: Layer, stored: Mapping[str, str]) -> str:
    """
    Return the body of the function of a layer. `stored` has the names of equal constants, as
    `equal_names` returns them.
    """
    text = "\n".join(explicit(layer.lines)) + "\n"
    return LAYER_CONSTANT.sub(lambda name: stored.get(name[0], name[0]), text)


def with_constants(functions: Iterable[Function], pool: ConstantPool) -> LayerFunctions:
    """Merge functions that differ only in constants, which become arguments."""
    pointers = _pointer_types(pool)
    alike: defaultdict[object, list[tuple[Function, Text]]] = defaultdict(list)
    for function in functions:
        text = Text.at_constants(function.body, pointers)
        alike[(*function.parameters, text.form)].append((function, text))
    texts: list[str] = []
    calls: dict[int, SharedCall] = {}
    for group in alike.values():
        first, text = group[0]
        taken = re.findall(r"\w+", " ".join([*text.pieces, *first.parameters]))
        merged = merge([text for _, text in group], "", taken=taken)
        parameters = first.parameters
        parameters += [f"{column.ctype} {column.name}" for column in merged.columns]
        name = function_name(first.layer)
        head = f"MODEL_LAYER void {name}({', '.join(parameters) or 'void'})"
        unused = [column.name for column in (*first.columns, *merged.columns)]
        start = "".join(f"  (void){each};\n" for each in unused if "#if" in merged.text)
        users: list[int] = []
        for i, (function, _) in enumerate(group):
            constants = [column.values[i] for column in merged.columns]
            for j, layer in enumerate((function.layer, *function.also)):
                numbers = [column.values[j] for column in function.columns]
                calls[layer.index] = SharedCall(name, (*numbers, *constants))
                users.append(layer.index)
        title = _title(first.layer, users[1:])
        texts.append(f"{title}{head}\n{{\n{start}{merged.text}}}\n")
    return LayerFunctions(texts, calls)


def with_numbers(functions: Iterable[Function]) -> list[Function]:
    """Merge functions with equal constants that differ only in numbers."""
    alike: defaultdict[object, list[tuple[Function, list[Segment]]]] = defaultdict(list)
    for function in functions:
        segments = segments_of(function.body)
        key = tuple(s.text.form if s.is_fixed else s.kind for s in segments)
        alike[(*function.parameters, key)].append((function, segments))
    return [
        _merged([f.layer for f, _ in group], [segments for _, segments in group])
        for group in alike.values()
    ]


_ARGUMENTS = ("n", "count", "extent")
"""Beginnings of names of arguments for numbers; the first that no text uses is chosen."""


def argument_name(texts: Iterable[Text]) -> str:
    """Return the beginning of names of arguments that replace the numbers in `texts`."""
    joined = "\n".join(text.filled(text.values) for text in texts)
    return next(n for n in _ARGUMENTS if not re.search(rf"\b{n}\d+\b", joined))


def _merged(layers: Sequence[Layer], users: Sequence[Sequence[Segment]]) -> Function:
    name = argument_name(segment.text for segments in users for segment in segments)
    body, columns = _merge_segments(users, name)
    if columns:
        # The initializer of a static variable has no arguments.
        body = body.replace("static const struct", "const struct")
    return Function(layers[0], body, columns, layers[1:])


def _merge_segments(users: Sequence[Sequence[Segment]], name: str) -> tuple[str, list[Column]]:
    """
    Return the body of a function for all users, and its arguments. Where users have different code
    for a kind of processor, an argument selects it.
    """
    count = len(users[0])
    fixed = [i for i in range(count) if users[0][i].is_fixed]
    mark = "\0"
    whole = [joined([segments[i].text for i in fixed], mark) for segments in users]
    merged = merge(whole, name)
    columns = list(merged.columns)
    printed = dict(zip(fixed, merged.text.split(mark), strict=True))
    for i in (i for i in range(count) if i not in printed):
        forms: defaultdict[object, list[int]] = defaultdict(list)
        for user, segments in enumerate(users):
            forms[segments[i].text.form].append(user)
        if len(forms) > 1:
            kinds = {user: str(k) for k, found in enumerate(forms.values()) for user in found}
            selector = f"{name}{len(columns)}"
            chosen = tuple(kinds[user] for user in range(len(users)))
            columns.append(Column(INTEGER, chosen, selector))
        else:
            selector = ""
        parts: list[str] = []
        start = len(columns)
        for found in forms.values():
            given = [
                replace(column, values=tuple(column.values[user] for user in found))
                for column in columns[:start]
            ]
            taken = [column.name for column in columns]
            part = merge([users[user][i].text for user in found], name, given, taken)
            for column in part.columns:
                none = "0" if column.ctype == INTEGER else "0.0f"
                values = dict(zip(found, column.values, strict=True))
                full = tuple(values.get(user, none) for user in range(len(users)))
                columns.append(replace(column, values=full))
            parts.append(part.text)
        printed[i] = _selected(selector, parts) if selector else parts[0]
    return "".join(printed[i] for i in range(count)), columns


def _selected(selector: str, parts: Sequence[str]) -> str:
    text = ""
    for i, part in enumerate(parts):
        condition = "else {" if i == len(parts) - 1 else f"if ({selector} == {i}) {{"
        between = "  " if not i else " else " if i < len(parts) - 1 else " "
        indented = "".join(
            line if line.startswith("#") else f"  {line}" for line in part.splitlines(keepends=True)
        )
        text += f"{between}{condition}\n{indented}  }}"
    return f"{text}\n"


def _pointer_types(pool: ConstantPool) -> dict[str, str]:
    """
    Return the C type of a pointer to each constant, by its C name. Constants whose elements have
    several types, under different preprocessor conditions, are omitted.
    """
    types: defaultdict[str, set[str]] = defaultdict(set)
    for constant in (*pool.constants, *(copy for copy, _ in pool.copies)):
        types[constant.name.upper()].add(constant.ctype)
    return {
        name: f"const {next(iter(found))} *restrict"
        for name, found in types.items()
        if len(found) == 1
    }


def equal_names(pool: ConstantPool) -> dict[str, str]:
    """
    Return for each C name of a constant the first name with the same bytes, under each preprocessor
    condition.
    """
    stored: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for constant in pool.constants:
        stored[constant.name][constant.condition] = constant.name
    for copy, constant in pool.copies:
        stored[copy.name][copy.condition] = constant.name
    first: dict[object, str] = {}
    return {
        name.upper(): first.setdefault(tuple(sorted(found.items())), name).upper()
        for name, found in stored.items()
    }


def shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _title(layer: Layer, also: Sequence[int]) -> str:
    op = layer.op
    shapes = " ".join(shape_text(shape_of(v)) for v in op.operands if not _is_constant(v))
    text = f"Layer {layer.index}: {op.name} '{comment(node_name(op))}', {shapes} -> "
    text += " ".join(shape_text(shape_of(v)) for v in op.results)
    if isinstance(op, Conv2dOp):
        kernel = shape_text(shape_of(op.weights)[1:3])
        text += f", {kernel} window, {op.macs} products"
    elif isinstance(op, MatmulOp):
        text += f", {op.macs} products"
    title = f"/* {text} */\n"
    if also:
        text = f"And layer{'s' * (len(also) > 1)} {', '.join(map(str, also))}."
        title += f"/* {fill(text, 95, subsequent_indent=' * ')} */\n"
    return title


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp)


def function_name(layer: Layer) -> str:
    return f"layer_{layer.index}_{layer.op.name.rpartition('.')[2]}"
