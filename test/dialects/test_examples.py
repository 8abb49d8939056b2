"""Check that each operation in docs/dialects.md has an example that parses and verifies."""

import inspect
import textwrap

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.test import TestOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.traits import HasParent

from ceras_ir.universe import CERAS_UNIVERSE, dialect_paths

PROGRAM = "vta.program @launch uops at 0 dense<0> : tensor<2x3xi16> {{ {} vta.finish }}"
"""A parent of the instructions of VTA, which an example does not repeat."""


def example_of(cls: type[Operation]) -> str:
    """Return the indented block at the end of a docstring."""
    last = (inspect.getdoc(cls) or "").rpartition("\n\n")[2]
    return textwrap.dedent(last) if last.startswith("    ") else ""


def parsed(text: str) -> ModuleOp:
    """Parse operations; values that the text does not define become results of `test.op`."""
    context = Context()
    for name, load in CERAS_UNIVERSE.all_dialects.items():
        context.register_dialect(name, load)
    context.load_dialect(Builtin)
    context.load_dialect(Func)
    parser, ops = Parser(context, text), list[Operation]()
    while (op := parser.parse_optional_operation()) is not None:
        ops.append(op)
    missing = [v for values in parser.forward_ssa_references.values() for v in values.values()]
    inputs = TestOp(result_types=[value.type for value in missing])
    for value, result in zip(missing, inputs.results, strict=True):
        value.replace_all_uses_with(result)
    return ModuleOp([inputs, *ops])


LOADERS = (CERAS_UNIVERSE.all_dialects[name] for name in dialect_paths())
OPERATIONS = [op for load in LOADERS for op in load().operations]


@pytest.mark.parametrize("cls", OPERATIONS, ids=lambda cls: cls.name)
def test_examples_are_valid(cls: type[Operation]) -> None:
    text = example_of(cls)
    assert text, f"add an example to the docstring of {cls.__name__}"
    if cls.get_trait(HasParent) is not None:
        text = PROGRAM.format(text.removesuffix("vta.finish"))
    module = parsed(text)
    assert any(isinstance(op, cls) for op in module.walk())
    module.verify()


def test_an_invalid_example_fails() -> None:
    with pytest.raises(Exception, match="permutation of 2 dimensions"):
        parsed(
            "%y = graph.transpose %x {permutation = array<i64: 0>} "
            ": (tensor<2x4xf32>) -> tensor<4x2xf32>"
        ).verify()
