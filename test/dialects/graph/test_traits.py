"""
Check that analyses use the traits and properties of operations from another dialect, and that
incorrect declarations are found.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import (
    ConvertsLayout,
    Elementwise,
    MayOverwrite,
    MovesElements,
    View,
)
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.network.function import main_function, observed_values, quantized_operations
from ceras_ir.network.storage import set_exponent
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.report import layers
from ceras_ir.transforms.graph.eliminate_transposes import EliminateTransposesPass
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
from ceras_ir.transforms.memory.check_blocks import check_plan
from ceras_ir.transforms.memory.copies import bytes_copied_by
from ceras_ir.transforms.memory.liveness import analyse
from ceras_ir.transforms.quantization.quantize_graph import QuantizeGraphPass
from ceras_ir.transforms.quantization.scales import AlignScalesPass

FORMAT = "$input attr-dict `:` functional-type(operands, results)"


class _Toy(graph.GraphOperation):
    input = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = FORMAT


@irdl_op_definition
class DoubleOp(_Toy):
    """Multiply by 2."""

    name = "toy.double"
    traits = traits_def(Elementwise(), MayOverwrite())

    @property
    def rescales(self) -> bool:
        return True

    def quantized(self, operands: Sequence[SSAValue], element: UniformType) -> graph.GraphOperation:
        """Return the same integers; the scale of the result is twice that of the operand."""
        assert graph.scale_of(operands[0]) * 2 == element.scale
        requant = RequantAttr(1)
        return graph.BinaryOp(
            graph.Binary.ADD, operands[0], operands[0], result_element=element, requant=requant
        )


@irdl_op_definition
class WindowOp(_Toy):
    """An operation with a window and multiplications."""

    name = "toy.window"

    @property
    def window(self) -> tuple[int, ...]:
        return (99, 1)

    @property
    def macs(self) -> int:
        return 1000

    @property
    def spelling(self) -> str:
        return "window of 99"


@irdl_op_definition
class FlattenOp(_Toy):
    """Return the elements in a single row."""

    name = "toy.flatten"
    traits = traits_def(View())


@irdl_op_definition
class ReverseOp(_Toy):
    """Return the elements in reverse order."""

    name = "toy.reverse"
    traits = traits_def(MovesElements())


@irdl_op_definition
class SwizzleOp(_Toy):
    """Return the elements in the layout of another device."""

    name = "toy.swizzle"
    traits = traits_def(ConvertsLayout())


@irdl_op_definition
class LiarOp(_Toy):
    """Declares that the kernel may overwrite an operand, but is not elementwise."""

    name = "toy.liar"
    traits = traits_def(MayOverwrite())


@irdl_op_definition
class WeaveOp(graph.GraphOperation):
    """Interleave the elements of all operands."""

    name = "toy.weave"

    inputs = var_operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$inputs attr-dict `:` functional-type(operands, results)"

    @property
    def keeps_scale(self) -> bool:
        return True


OPERATIONS = [DoubleOp, WindowOp, FlattenOp, ReverseOp, SwizzleOp, LiarOp, WeaveOp]
TOY = Dialect("toy", list(OPERATIONS))


def context() -> Context:
    ctx = load_context()
    ctx.load_dialect(TOY)
    return ctx


def network(lines: str, result: str = "2x4xf32") -> ModuleOp:
    """Return `main` from a 2x4 tensor type T to %y of type `result`."""
    text = (
        f"func.func @main(%x: T) -> tensor<{result}> {{\n{lines}\n"
        f"func.return %y : tensor<{result}>\n}}"
    )
    module = parse_text(context(), text.replace("T", "tensor<2x4xf32>"), "toy.mlir")
    module.verify()
    return module


def operation(module: ModuleOp, name: str) -> Operation:
    return next(op for op in module.walk() if op.name == name)


CHAIN = """
%a = toy.window %x : (T) -> T
%b = toy.double %a : (T) -> T
%f = toy.flatten %b : (T) -> tensor<8xf32>
%y = toy.window %f : (tensor<8xf32>) -> tensor<8xf32>
"""


def test_views_and_overwriting_operations_share_the_bytes_of_the_operand():
    main = main_function(network(CHAIN, "8xf32"))
    a, b, f, _ = (op.results[0] for op in main.body.block.ops if op.results)
    found = analyse(main)
    assert found.by_value[a] is found.by_value[b] is found.by_value[f]
    apart = analyse(main, in_place=False)
    assert apart.by_value[a] is not apart.by_value[b]
    assert apart.by_value[b] is apart.by_value[f]


def test_the_checker_of_plans_finds_a_wrong_declaration():
    module = network(CHAIN, "8xf32")
    AllocateBlocksPass().apply(context(), module)
    assert check_plan(main_function(module)) == []
    assert bytes_copied_by(operation(module, "toy.flatten")) == 0
    wrong = network(CHAIN.replace("toy.double", "toy.liar"), "8xf32")
    with pytest.raises(AssertionError, match="result overlaps an operand it reads"):
        AllocateBlocksPass().apply(context(), wrong)


def test_bytes_of_another_layout_are_copied():
    module = network("%y = toy.swizzle %x : (T) -> T")
    assert bytes_copied_by(operation(module, "toy.swizzle")) == 32


@pytest.mark.needs("nnet")
def test_placement_uses_windows_macs_and_views():
    from ceras_ir.backends.nnet.board import load_board
    from ceras_ir.backends.nnet.placement import circuit_limit, cost_of

    module, board = network(CHAIN, "8xf32"), load_board("ceras_zcu104")
    window, view = operation(module, "toy.window"), operation(module, "toy.flatten")
    assert cost_of(view, board, admitted=True).accelerator == 0.0
    assert cost_of(window, board, admitted=True).cpu > 1000 / board.cpu_macs_per_us
    circuit = next(iter(board.circuits.values()))
    board.circuits["toy.window"] = replace(circuit, max_kernel=7)
    assert "a window of 99 exceeds" in str(circuit_limit(window, board))


def test_the_report_uses_spelling_and_macs():
    first, second, *_ = layers(network(CHAIN, "8xf32"))
    assert (first.op, first.macs) == ("window of 99", 1000)
    assert (second.op, second.macs) == ("toy.double", 0)


def test_transposes_sink_below_elementwise_operations():
    order = "{permutation = array<i64: 1, 0>}"
    lines = f"""
    %t = graph.transpose %x {order} : (T) -> tensor<4x2xf32>
    %d = toy.NAME %t : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %y = graph.transpose %d {order} : (tensor<4x2xf32>) -> tensor<2x4xf32>
    """
    for name, left in (("double", 0), ("window", 2)):
        module = network(lines.replace("NAME", name))
        EliminateTransposesPass().apply(context(), module)
        assert sum(op.name == "graph.transpose" for op in module.walk()) == left


QUANTIZED = """
%d = toy.double %x : (T) -> T
%r = toy.reverse %d : (T) -> T
%w = toy.window %r : (T) -> T
%y = toy.weave %r, %x : (T, T) -> tensor<2x8xf32>
"""


def test_the_operation_defines_the_quantized_form():
    module = network(QUANTIZED, "2x8xf32")
    main = main_function(module)
    double, reverse, window, weave = (
        operation(module, f"toy.{name}") for name in ("double", "reverse", "window", "weave")
    )
    assert [*quantized_operations(main)] == [double, reverse, weave]
    values = observed_values(main)
    assert reverse.results[0] not in values
    assert {double.results[0], window.results[0], weave.results[0]} < set(values)
    for value, exponent in zip(values, (-4, -3, 0, -3), strict=True):
        set_exponent(value, exponent)
    AlignScalesPass().apply(context(), module)
    QuantizeGraphPass().apply(context(), module)
    module.verify()
    names = [op.name for op in main.body.block.ops]
    assert "toy.double" not in names and "graph.binary" in names
    # The window remains float; operands of `weave` are rescaled to the result.
    assert graph.quantized_element(operation(module, "toy.window").results[0]) is None
    for name in ("toy.reverse", "toy.weave"):
        op = operation(module, name)
        assert graph.scale_of(op.results[0]) == 2.0**-3
        assert all(graph.scale_of(v) == 2.0**-3 for v in op.operands)
    assert names.count("graph.requantize") == 1


@pytest.mark.parametrize(
    ("name", "result", "message"),
    [
        ("flatten", "7xf32", r"shape \(2, 4\) has 8 elements, \(7,\) has 7"),
        ("reverse", "8xi8", "elements must be f32 or quantized"),
        ("reverse", "8x!quant.uniform<i8:f32, 0.5>", "element types must be equal"),
    ],
)
def test_traits_are_verified(name: str, result: str, message: str):
    with pytest.raises(VerifyException, match=message):
        network(f"%y = toy.{name} %x : (T) -> tensor<{result}>", result)
