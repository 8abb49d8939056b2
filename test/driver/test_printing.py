"""Check that printed constants are parsed bit for bit."""

from io import StringIO

import pytest
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)

from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.printing import MAX_LISTED, print_module


@pytest.mark.parametrize("element", [f16, bf16, f32, f64], ids=str)
@pytest.mark.parametrize("count", [1, 3, 17])
def test_what_is_not_finite(element: AnyFloat, count: int):
    data = element.pack([float("-inf"), *[float("nan")] * (count - 1)])
    constant = DenseIntOrFPElementsAttr(TensorType(element, [count]), BytesAttr(data))
    print_module(ModuleOp([], {"test.constant": constant}), text := StringIO())
    again = parse_text(load_context(), text.getvalue(), "text")
    assert again.attributes["test.constant"] == constant


@pytest.mark.parametrize("element", [i1, i8, i32, i64, f16, bf16, f32, f64], ids=str)
@pytest.mark.parametrize("count", [1, 2, 16, 17, 150])
@pytest.mark.parametrize("splat", [False, True])
def test_round_trip(element: IntegerType | AnyFloat, count: int, splat: bool):
    values = [1] * count if splat else [i % 2 if element == i1 else i % 50 for i in range(count)]
    if isinstance(element, IntegerType):
        data = b"".join(element.pack([element.get_normalized_value(v)]) for v in values)
    else:
        data = element.pack([v / 4 for v in values])
    constant = DenseIntOrFPElementsAttr(TensorType(element, [count]), BytesAttr(data))
    module = ModuleOp([], {"test.constant": constant})
    print_module(module, text := StringIO())
    assert text.getvalue().endswith("}\n")
    again = parse_text(load_context(), text.getvalue(), "printed")
    assert again.attributes["test.constant"] == constant
    print_module(module, elided := StringIO(), elide=MAX_LISTED)
    large = count > 16 and not splat and element != i1
    assert ("dense_resource<__elided__>" in elided.getvalue()) == large
