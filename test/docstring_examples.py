"""
Parse the examples in docstrings of operations, passes and rules.

An example is an indented block at the end of the docstring. Values that it does not define are
inputs.
"""

import inspect
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.traits import SymbolOpInterface

from ceras_ir.pipeline.context import load_context
from ceras_ir.support.options import docstring

WIDTH, INDENT = 100, " " * 8
"""The columns of a source line, and the indentation of an example in the docstring of a class."""


def last_block(cls: type) -> str:
    """Return the indented block at the end of a docstring, or "" without a block."""
    last = (inspect.getdoc(cls) or "").rpartition("\n\n")[2]
    return textwrap.dedent(last) if last.startswith("    ") else ""


@dataclass(frozen=True)
class Parsed:
    """The operations of a text, and the values by name that it uses but does not define."""

    ops: list[Operation]
    missing: dict[str, SSAValue]


_ALIASES = re.compile(r"^( *)[!#]\w+ = .*\n(?:\1 +.*\n)*", re.MULTILINE)


def parsed(text: str) -> Parsed:
    """Parse aliases of types and attributes, and a list of operations."""
    header = Parser(load_context(), aliases(text) + "builtin.module {}")
    header.parse_module()
    parser, ops = Parser(load_context(), _ALIASES.sub("\n", text)), list[Operation]()
    parser.attribute_aliases = header.attribute_aliases
    while (op := parser.parse_optional_operation()) is not None:
        ops.append(op)
    references = parser.forward_ssa_references.items()
    return Parsed(ops, {name: value for name, values in references for value in values.values()})


def aliases(text: str) -> str:
    """Return the lines of a text that define aliases, and the indented lines after them."""
    return "".join(found[0] for found in _ALIASES.finditer(text))


@dataclass(frozen=True)
class PassExample:
    """
    The IR before and after a pass, and the options of the pass. The message is that of a pass that
    prints or refuses; then there is no text After.
    """

    options: str
    before: str
    after: str
    message: str = ""


_BLOCK = r"\n\n((?:    .*\n|\n)+)"
_EXAMPLE = re.compile(
    rf"^Before(?:, with `([^`]*)`)?:{_BLOCK}(After|Message):{_BLOCK}\Z", re.MULTILINE
)


def pass_example(cls: type[ModulePass]) -> PassExample | None:
    """
    Return the example at the end of the docstring of a pass or rule. Aliases of the text Before are
    also defined in the text After.
    """
    if (found := _EXAMPLE.search(f"{docstring(cls)}\n")) is None:
        return None
    options, before, label, last = found.groups("")
    if label == "Message":
        return PassExample(options, before, "", last)
    return PassExample(options, before, aliases(before) + last)


def network(text: str, inputs: Sequence[tuple[str, Attribute]] = ()) -> ModuleOp:
    """
    Return the module of a text. Operations outside functions become `@main`, before the functions:
    the last results are returned. The arguments have these names and types, or the type of the
    first use, and undefined values are more arguments, in the order of use.
    """
    found = parsed(text)
    symbols = [op for op in found.ops if op.has_trait(SymbolOpInterface)]
    ops = [op for op in found.ops if op not in symbols]
    if not ops:
        return ModuleOp(symbols)
    types = dict(inputs) | {name: value.type for name, value in found.missing.items()}
    block = Block(arg_types=types.values())
    for argument, name in zip(block.args, types, strict=True):
        argument.name_hint = name
        if (value := found.missing.get(name)) is not None:
            value.replace_all_uses_with(argument)
    block.add_ops([*ops, ReturnOp(*ops[-1].results)])
    results = [value.type for value in ops[-1].results]
    return ModuleOp([FuncOp("main", ((*types.values(),), results), Region(block)), *symbols])


def arguments(module: ModuleOp) -> list[tuple[str, Attribute]]:
    """Return names and types of the arguments of the first function."""
    main = next(op for op in module.ops if isinstance(op, FuncOp))
    return [(value.name_hint or str(i), value.type) for i, value in enumerate(main.args)]


def block_text(module: ModuleOp, *, is_wrapped: bool) -> str:
    """Return the IR as lines of a docstring, without the function `@main` if it was added."""
    first, *others = map(str, module.ops)
    # Attributes of the function are part of an example.
    main = module.body.block.first_op
    if is_wrapped and isinstance(main, FuncOp) and not main.attributes:
        first = textwrap.dedent("\n".join(first.splitlines()[1:-2]))
    text = "\n".join([first, *others])
    return "\n".join(_wrapped(INDENT + _short_floats(line)) for line in text.splitlines())


def _wrapped(line: str) -> str:
    """Break a long line before the types of an operation, else at spaces."""
    head, _, types = line.rpartition(" : ")
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    pieces = [head, f"{indent}: {types}"] if head and len(line) > WIDTH else [line]
    fill = textwrap.TextWrapper(
        WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(map(fill.fill, pieces))


def _short_floats(line: str) -> str:
    """Shorten floats: `5.000000e-01` becomes `0.5`, unless MLIR requires the exponent."""
    return re.sub(
        r"\d\.\d+e[+-]\d\d\b",
        lambda found: short if "e" not in (short := repr(float(found[0]))) else found[0],
        line,
    )


def difference(module: ModuleOp, other: ModuleOp) -> str:
    """Return the first difference of two modules except for names of values and locations."""
    # A splat and an empty dictionary of attributes have two forms in memory, but one in text.
    found, expected = (Parser(load_context(), str(each)).parse_module() for each in (module, other))
    if not found.is_structurally_equivalent(expected):
        return "The operations, operands or attributes differ"
    for a, b in zip(found.walk(), expected.walk(), strict=True):
        if [value.type for value in a.results] != [value.type for value in b.results]:
            return f"The types of results differ: `{a}` and `{b}`"
    return ""
