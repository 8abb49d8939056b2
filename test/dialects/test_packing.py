"""Check elements of less than 8 bits against integers that Python packs."""

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness, i8

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType, packed
from ceras_ir.transforms.memory.liveness import byte_size


def storage(width: int, signed: bool) -> IntegerType:
    return IntegerType(width, Signedness.SIGNLESS if signed else Signedness.UNSIGNED)


@pytest.mark.parametrize("signed", (True, False))
@pytest.mark.parametrize("width", range(1, 9))
def test_rows_are_packed_with_the_low_bits_first(width: int, signed: bool):
    if signed and width == 1:
        return
    element = UniformType(1.0, storage=storage(width, signed))
    shape = (3, 5, 1, 7)
    rng = np.random.default_rng(width)
    array = rng.integers(element.low, element.high + 1, shape).astype(graph.numpy_dtype(element))
    rows = packed(array, width)
    assert element.packed_bytes(shape) == rows.size == 3 * -(-35 * width // 8)
    for row, elements in zip(rows, array.reshape(3, -1).tolist(), strict=True):
        number = sum((e % (1 << width)) << width * i for i, e in enumerate(elements))
        assert int.from_bytes(row.tobytes(), "little") == number


def test_a_scalar_is_a_row():
    assert packed(np.array(-1, np.int8), 2).tolist() == [[3]]
    assert UniformType(1.0, storage=IntegerType(2)).packed_bytes(()) == 1


def test_only_constants_are_packed():
    element = UniformType(0.5, storage=IntegerType(4))
    constant = graph.ConstantOp.from_array(np.zeros((3, 5), np.int8), element)
    assert byte_size(constant.result) == 9
    assert byte_size(graph.ReshapeOp(constant.result, (15,)).result) == 15
    wide = graph.ConstantOp.from_array(np.zeros((3, 5), np.int8), UniformType(0.5))
    assert byte_size(wide.result) == 15
    # The same bytes in memory are other constants in flash.
    assert constant.digest() != wide.digest()


def test_a_wider_type_has_the_same_integers():
    element = UniformType([0.5, 0.25], [-8, 7], storage=IntegerType(4), axis=1)
    assert element.widened(8) == UniformType([0.5, 0.25], [-8, 7], storage=i8, axis=1)
    unsigned = UniformType(0.5, 3, storage=storage(2, False))
    assert unsigned.widened(4).storage == storage(4, False)
    assert (element.low, element.high, unsigned.low, unsigned.high) == (-8, 7, 0, 3)
