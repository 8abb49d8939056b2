"""Check that each operation in docs/dialects.md has an example that parses and verifies."""

import pytest
from docstring_examples import last_block, parsed
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.test import TestOp
from xdsl.ir import Operation
from xdsl.traits import HasParent

from ceras_ir.universe import CERAS_UNIVERSE, dialect_paths

PROGRAM = "vta.program @launch uops at 0 dense<0> : tensor<2x3xi16> {{ {} vta.finish }}"
"""A parent of the instructions of VTA, which an example does not repeat."""


def module_of(text: str) -> ModuleOp:
    """Parse operations; values that the text does not define become results of `test.op`."""
    found = parsed(text)
    inputs = TestOp(result_types=[value.type for value in found.missing.values()])
    for value, result in zip(found.missing.values(), inputs.results, strict=True):
        value.replace_all_uses_with(result)
    return ModuleOp([inputs, *found.ops])


LOADERS = (CERAS_UNIVERSE.all_dialects[name] for name in dialect_paths())
OPERATIONS = [op for load in LOADERS for op in load().operations]


@pytest.mark.parametrize("cls", OPERATIONS, ids=lambda cls: cls.name)
def test_examples_are_valid(cls: type[Operation]) -> None:
    text = last_block(cls)
    assert text, f"add an example to the docstring of {cls.__name__}"
    if cls.get_trait(HasParent) is not None:
        text = PROGRAM.format(text.removesuffix("vta.finish"))
    module = module_of(text)
    assert any(isinstance(op, cls) for op in module.walk())
    module.verify()


def test_an_invalid_example_fails() -> None:
    with pytest.raises(Exception, match="permutation of 2 dimensions"):
        module_of(
            "%y = graph.transpose %x {permutation = array<i64: 0>} "
            ": (tensor<2x4xf32>) -> tensor<4x2xf32>"
        ).verify()
