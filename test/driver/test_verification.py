"""Check that a module is verified again after any change that verification depends on."""

from collections.abc import Callable

import numpy as np
import pytest
from c_harness import constant, make_network
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, f32
from xdsl.rewriter import InsertPoint, Rewriter

import ceras_ir.pipeline.verification
from ceras_ir.command.exit_status import Diagnostic
from ceras_ir.dialects.graph import Binary, BinaryOp, ConstantOp, ReshapeOp
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.verification import ChangeVerifier


def network() -> ModuleOp:
    weights = np.ones((2, 3), np.float32)
    return make_network(
        [(f32, (2, 3))],
        lambda x: [BinaryOp(Binary.ADD, x, constant(weights), result_element=f32).result],
    )


def parts(module: ModuleOp) -> tuple[ConstantOp, BinaryOp]:
    ops = list(main_function(module).body.block.ops)
    (read,) = (op for op in ops if isinstance(op, ConstantOp))
    (added,) = (op for op in ops if isinstance(op, BinaryOp))
    return read, added


def retype(module: ModuleOp) -> None:
    Rewriter.replace_value_with_new_type(parts(module)[1].result, TensorType(f32, (3, 2)))


def retype_argument(module: ModuleOp) -> None:
    main = main_function(module)
    Rewriter.replace_value_with_new_type(main.body.block.args[0], TensorType(f32, (3, 3)))


def set_property(module: ModuleOp) -> None:
    parts(module)[1].properties["kind"] = StringAttr("add")


def set_attribute(module: ModuleOp) -> None:
    parts(module)[1].attributes["graph.exponent"] = StringAttr("1")


def swap_operand(module: ModuleOp) -> None:
    read, added = parts(module)
    added.operands[0] = ReshapeOp(read.result, (3, 2)).result


def move(module: ModuleOp) -> None:
    read, added = parts(module)
    read.detach()
    Rewriter.insert_op(read, InsertPoint.after(added))


@pytest.mark.parametrize(
    "spoil", [retype, retype_argument, set_property, set_attribute, swap_operand, move]
)
def test_what_became_invalid_is_found(spoil: Callable[[ModuleOp], None]):
    module, verification = network(), ChangeVerifier()
    assert not verification.find_invalid(module)
    spoil(module)
    assert verification.find_invalid(module)
    assert verification.find_invalid(module), "invalid twice"


def test_what_is_as_it_was_is_not_verified_again(monkeypatch: pytest.MonkeyPatch):
    module, verification = network(), ChangeVerifier()
    verification.check(module)

    def refuse(module: ModuleOp) -> list[Diagnostic]:
        raise AssertionError

    monkeypatch.setattr(ceras_ir.pipeline.verification, "find_invalid", refuse)
    verification.check(module)
    with pytest.raises(AssertionError):
        verification.check(module.clone())
