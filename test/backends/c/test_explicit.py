"""Check the parentheses and blocks that generated C gets, and the texts that must not change."""

import random
import re

import pytest

from ceras_ir.backends.c.explicit import explicit


def written(*lines: str) -> str:
    return "\n".join(explicit(lines))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y[i * 4 + j] = a + b * c;", "y[(i * 4) + j] = a + (b * c);"),
        ("v = v < 0 ? 0 : v > 255 ? 255 : v;", "v = (v < 0) ? 0 : (v > 255) ? 255 : v;"),
        ("const int8_t *w = x + i * 4;", "const int8_t *w = x + (i * 4);"),
        ("v = (v + 3 + ((v >> 3) & 1)) >> 3;", "v = (v + 3 + ((v >> 3) & 1)) >> 3;"),
        ("f(x + r * 9, 9, -128 + y);", "f(x + (r * 9), 9, -128 + y);"),
        ("return a < b || a != a ? b : a;", "return ((a < b) || (a != a)) ? b : a;"),
        ("v = (float)x[i] * -1e-5f + 0x1e-5;", "v = ((float)x[i] * -1e-5f) + 0x1e-5;"),
        ("v = (int64_t)-a * b + c->at * *d;", "v = ((int64_t)-a * b) + (c->at * *d);"),
        ("static const struct window w = {", "static const struct window w = {"),
        ("q = a - b - c; /* a - b * c */", "q = a - b - c; /* a - b * c */"),
    ],
)
def test_precedence_is_written(text: str, expected: str):
    assert written(text) == expected
    assert written(expected) == expected


def test_single_statements_become_blocks():
    text = "  for (int32_t i = 0; i < 4; ++i) if (x[i] > 0) y += x[i] * 2 + 1;"
    assert written(text) == (
        "  for (int32_t i = 0; i < 4; ++i) {\n"
        "    if (x[i] > 0) {\n"
        "      y += (x[i] * 2) + 1;\n"
        "    }\n"
        "  }"
    )


@pytest.mark.parametrize(
    "text",
    [
        "#if MODEL_LANES == 16 && MODEL_NEON",
        '__asm__("smlad %0, %1, %2, %0" : "+r"(s) : "r"(a + b * c));',
        "  f(a * b + c,",
        "  for (int32_t i = 0; i < 4; ++i) {",
        "  if (a) b(); else c();",
    ],
)
def test_other_lines_do_not_change(text: str):
    assert written(text) == text


def expression(draw: random.Random, depth: int) -> str:
    """Return an expression of integers. Python has the precedence of C for its operators."""
    if depth == 0 or draw.random() < 0.2:
        return draw.choice(["a", "b", "-a", "~b", "(a + b)", str(draw.randrange(9))])
    left, right = expression(draw, depth - 1), expression(draw, depth - 1)
    return f"{left} {draw.choice('+-*&|^')} {right}"


def test_values_do_not_change():
    draw = random.Random(0)
    for _ in range(500):
        text = expression(draw, 5)
        changed = written(text)
        assert re.sub(r"[()]", "", changed) == re.sub(r"[()]", "", text)
        names = {"a": draw.randrange(-50, 50), "b": draw.randrange(-50, 50)}
        assert eval(changed, {}, names) == eval(text, {}, names), text
