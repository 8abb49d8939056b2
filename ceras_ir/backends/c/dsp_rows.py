"""
Few positions on cores with SMLAD: four rows of weights, interleaved word by word, meet one
widened row of the input.
"""

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.dsp_groups import earlier, groups_of
from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.layer import Layer

ROWS = 4
"""Rows of weights that meet one row of input together."""

ROW_STEP = """\
    const uint32_t even@T@ = x[@X@], odd@T@ = x[@X@ + 1];
    const uint32_t s@T@ = dsp_read_constant(weights + @W@);
    const uint32_t t@T@ = dsp_read_constant(weights + @W@ + 4);
    DSP_IN_ORDER;
    a = dsp_smlad(dsp_odd(s@T@), odd@T@, dsp_smlad(dsp_even(s@T@), even@T@, a));
    b = dsp_smlad(dsp_odd(t@T@), odd@T@, dsp_smlad(dsp_even(t@T@), even@T@, b));
    const uint32_t u@T@ = dsp_read_constant(weights + @W@ + 8);
    const uint32_t v@T@ = dsp_read_constant(weights + @W@ + 12);
    DSP_IN_ORDER;
    c = dsp_smlad(dsp_odd(u@T@), odd@T@, dsp_smlad(dsp_even(u@T@), even@T@, c));
    d = dsp_smlad(dsp_odd(v@T@), odd@T@, dsp_smlad(dsp_even(v@T@), even@T@, d));"""


def packed_rows(weights: NDArray[np.integer]) -> NDArray[np.int8]:
    """Four rows, a word of each in turn."""
    groups = groups_of(weights, ROWS)
    split = groups.reshape(len(groups), ROWS, -1, 4)
    return np.ascontiguousarray(split.transpose(0, 2, 1, 3))


def _row_function(layer: Layer, taken: int) -> str:
    """Four rows of weights times one of input, `taken` words of each at a time."""
    steps = (
        ROW_STEP.replace("@T@", str(t)).replace("@X@", str(2 * t)).replace("@W@", str(16 * t))
        for t in range(taken)
    )
    return layer.kernels.use("dsp_rows", NAME=str(taken), TAKEN=str(taken), STEPS="\n".join(steps))


def few_positions(of: IntegerLayer) -> None:
    """Print a layer of fewer positions than a tile has."""
    layer, n, k = of.layer, of.geometry.n, of.geometry.k

    w = layer.constant(
        "weights", "int8_t", -(-n // ROWS) * ROWS * k, 1, lambda: packed_rows(of.sums.centred())
    )
    function = _row_function(layer, 2 if k % 8 == 0 else 1)
    layer.scratch("uint32_t", "row", k // 2, 4)
    layer.loop(
        "p",
        of.geometry.positions,
        [
            f"const int32_t at = p * {n};",
            f"dsp_widen(row, {of.x} + p * {k}, {k});",
            f"for (int32_t group = 0; group < {-(-n // ROWS)}; ++group) {{",
            f"  const int32_t f = {earlier('4 * group', n, ROWS, n % ROWS == 0)};",
            f"  int32_t sums[{ROWS}];",
            f"  {function}(sums, row, {w} + group * {ROWS * k}, {k // 4}, {of.bias} + f);",
            f"  for (int32_t i = 0; i < {ROWS}; ++i) {{",
            "    const int32_t o = f + i;",
            *(f"    {t}" for t in of.epilogue("sums[i]")),
            "  }",
            "}",
        ],
    )
