"""
Test that functions which differ only in numbers are merged: the arguments of each user give the
numbers of the original text.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceras_ir.backends.c.shared_text import (
    INTEGER,
    Column,
    Text,
    merge,
    segments_of,
    without_numbered_comments,
)

SMALL = st.integers(0, 1 << 20)


def expanded(text: str, columns: tuple[Column, ...], user: int) -> str:
    """Replace the arguments by the numbers of a user, and compute the expressions of numbers."""
    for i, column in enumerate(columns):
        text = re.sub(rf"\bn{i}\b", column.values[user], text)
    text = text.replace("(uint32_t)", "").replace("(unsigned long)", "")
    sums = re.compile(r"\((\d+(?: \* \d+)?(?: [+-] \d+)?|\d+)\)")
    while (found := sums.search(text)) is not None:
        text = text[: found.start()] + str(eval(found[1])) + text[found.end() :]
    return text


@given(st.lists(st.lists(SMALL, min_size=4, max_size=4), min_size=2, max_size=6))
def test_arguments_give_the_numbers(rows: list[list[int]]):
    texts = ["x = {} + y[{}] * {} - {};\n".format(*row) for row in rows]
    split = [Text.of(text) for text in texts]
    assert len({text.form for text in split}) == 1
    merged = merge(split, "n")
    assert all(column.ctype == INTEGER for column in merged.columns)
    for user, text in enumerate(texts):
        assert expanded(merged.text, merged.columns, user) == text


@given(st.lists(SMALL, min_size=2, max_size=6, unique=True), st.integers(1, 99), SMALL)
def test_affine_numbers_share_an_argument(bases: list[int], factor: int, offset: int):
    texts = [f"f({base}, {factor * base + offset});\n" for base in bases]
    assert len(merge([Text.of(text) for text in texts], "n").columns) == 1


def test_suffixes_keep_the_type():
    texts = [Text.of(f"memset(p, 0, {n}U * sizeof *p); g({n}UL);\n") for n in (3, 5)]
    assert merge(texts, "n").text == (
        "memset(p, 0, ((uint32_t)n0) * sizeof *p); g(((unsigned long)n0));\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "#if MODEL_LANES == {}",
        "  float sums[{}];",
        "  static const int8_t table[] = {{{}, 2}};",
        "  case {}:",
        "  MODEL_THREADS({})",
        "  v = _mm512_permutex_epi64(v, {});",
        "  w = vextq_s8(a, b, {});",
        "  const int64_t n = {}00000000000;",
        "  tile_{}x1(x);",
        "  x = 0x{}F;",
    ],
)
def test_constants_of_the_language_remain(line: str):
    a, b = (Text.of(line.format(n) + "\n") for n in (4, 8))
    assert a.form != b.form


def test_floats_become_arguments():
    merged = merge([Text.of(f"y = x * {v};\n") for v in ("0.25f", "1e-05f")], "n")
    assert merged.text == "y = x * n0;\n"
    assert merged.columns == (Column("float", ("0.25f", "1e-05f")),)


FUNCTION = """\
#if MODEL_F32
  tile_{}x1(x);
#else
  dots_{}x4(x, {});
#endif
"""


def test_segments():
    first, second = (segments_of(FUNCTION.format(n, n, n)) for n in (3, 5))
    kinds = [(s.is_fixed, s.kind) for s in first]
    assert kinds == [(True, ""), (False, ""), (True, ""), (False, "dots_"), (True, "")]
    assert [s.is_fixed for s in second] == [s.is_fixed for s in first]


def test_comments_with_numbers_are_left_out():
    assert without_numbered_comments("/* 3 rows. */\nx;\n/* rows */\n") == "x;\n/* rows */\n"
