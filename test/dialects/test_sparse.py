"""Check that each encoding of the dialect `sparse` decodes to the encoded array, also from text."""

from math import lgamma, log, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, f32, i8
from xdsl.ir import Attribute
from xdsl.parser import Parser

from ceras_ir.dialects.sparse import (
    BitmapAttr,
    CooAttr,
    CsrAttr,
    Encoded,
    MaskAttr,
    Sparse,
    SparseBlockAttr,
)

Array = NDArray[np.generic]


@st.composite
def weights(draw: st.DrawFn) -> tuple[Array, Attribute]:
    """Draw weights of 2 or 4 dimensions with any share of zeros, including negative zeros."""
    rank = draw(st.sampled_from((2, 4)))
    shape = *(draw(st.integers(1, 9)) for _ in range(rank - 1)), draw(st.integers(1, 300))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    kept = rng.random(shape) < draw(st.sampled_from((0.0, 0.003, 0.06, 0.4, 1.0)))
    if draw(st.booleans()):
        return (rng.integers(-128, 128, shape) * kept).astype(np.int8), i8
    values = rng.choice(np.array([0.5, -0.0, 3.25], np.float32), shape)
    return np.where(kept, values, np.float32(0)).astype(np.float32), f32


def encodings(array: Array, element: Attribute) -> list[Encoded]:
    """Return all encodings of `array` that fit the shape."""
    filters, products = array.shape[0], prod(array.shape[1:])
    blocks = [b for b in ((4, 1), (1, 4), (2, 3)) if not filters % b[0] and not products % b[1]]
    return [
        CooAttr.of(array, element),
        *(CooAttr.of(array, element, delta) for delta in (1, 4, 9)),
        *(CsrAttr.of(array, element, delta=delta) for delta in (False, True)),
        BitmapAttr.of(array, element),
        *(SparseBlockAttr.of(array, element, block, 3) for block in blocks),
    ]


@pytest.mark.slow
@settings(max_examples=60)
@given(weights())
def test_encodings_are_lossless(drawn: tuple[Array, Attribute]):
    array, element = drawn
    ctx = Context()
    ctx.load_dialect(Builtin)
    ctx.load_dialect(Sparse)
    for encoded in encodings(array, element):
        assert encoded.array.dtype == array.dtype
        assert encoded.array.tobytes() == array.tobytes(), encoded.spelling
        assert not (array != 0)[~encoded.stored].any()
        assert Parser(ctx, str(encoded)).parse_attribute() == encoded


def by_hand(encoded: CsrAttr) -> NDArray[np.float32]:
    """Decode compressed rows independently, byte by byte."""
    result = np.zeros(encoded.shape, np.float32)
    places = np.frombuffer(encoded.places.data, "u1" if encoded.delta.data else "<u2")
    values = np.frombuffer(encoded.values.data, np.float32)
    at = 0
    width = encoded.counts_width.data // 8
    for o, count in enumerate(np.frombuffer(encoded.counts.data, f"<u{width}")):
        column = 0
        for i in range(at, at + int(count)):
            column = int(places[i]) + (column if encoded.delta.data else 0)
            result[o, column] = values[i]
        at += int(count)
    assert at == len(values)
    return result


def test_a_distance_beyond_255_stores_zeros():
    array = np.zeros((4, 1000), np.float32)
    array[0, 255] = 1  # reachable in a step
    array[1, 256] = 2  # not
    array[2, [3, 259, 770]] = 3
    rows = CsrAttr.of(array, f32)
    assert list(rows.counts.data) == [1, 2, 6, 0]
    assert list(rows.places.data) == [255, 255, 1, 3, 255, 1, 255, 255, 1]
    np.testing.assert_array_equal(by_hand(rows), array)
    assert CsrAttr.of(array, f32, delta=False).stored.sum() == 5


@pytest.mark.parametrize("delta", [False, True])
def test_an_independent_decoder_returns_the_same(delta: bool):
    rng = np.random.default_rng(0)
    for zeros in (0.0, 0.9, 0.999, 1.0):
        array = (rng.normal(size=(7, 2000)) * (rng.random((7, 2000)) >= zeros)).astype(np.float32)
        np.testing.assert_array_equal(by_hand(CsrAttr.of(array, f32, delta=delta)), array)


def test_distances_are_within_a_tenth_of_the_entropy_of_places_and_values():
    rng = np.random.default_rng(0)
    for shape, zeros in (
        ((64, 5, 5, 64), 0.941),
        ((128, 3, 3, 128), 0.94),
        ((128, 1, 1, 128), 0.805),
    ):
        size = prod(shape)
        kept = rng.permutation(size) < size * (1 - zeros)
        array = (kept * rng.choice([-9, 7], size)).astype(np.int8).reshape(shape)
        count = int(np.count_nonzero(array))
        choices = lgamma(size + 1) - lgamma(count + 1) - lgamma(size - count + 1)
        bound = choices / log(2) / 8 + count
        best = min(CooAttr.of(array, i8, delta).nbytes for delta in range(1, 12))
        assert bound <= best <= 1.1 * bound


def test_equal_filters_need_no_counts():
    array = np.tile(np.array([[0, 3, 0, 0, 5, 0, 0, 0]], np.int8), (6, 1))
    assert not CooAttr.of(array, i8).counts.data
    array[2, 3] = 1
    assert CooAttr.of(array, i8).counts.data


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 1 << 30))
def test_masks_are_lossless(rows: int, columns: int, seed: int):
    kept = np.random.default_rng(seed).random((rows, columns)) < 0.4
    mask = MaskAttr.of(kept)
    np.testing.assert_array_equal(mask.array, kept)
    assert mask.refusal(kept) is None
    assert (mask.refusal(np.ones_like(kept)) is None) == bool(kept.all())
