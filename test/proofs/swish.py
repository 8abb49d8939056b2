"""Prove swish of shifts: the kernel in C and VTA's program against the definition."""

from typing import Any

import numpy as np
from proofs.registry import every, identity, same

from ceras_ir.dialects.graph.elementwise import ShiftSwishOp
from ceras_ir.network.integer import shift_swish

C = "ceras_ir/backends/c/runtime/shift_swish.c"
VTA = "ceras_ir/backends/vta/kernels/epilogue.py"
DIALECT = "ceras_ir/dialects/graph/elementwise.py"
ROOM = {DIALECT: "if any(not 0 <= k <= self.MAX_BEND for k in bends):"}
IN_C = {
    C: """
  int32_t tail = (p >> 3) - k[2];
  int32_t dip = (m >> 2) - k[0];
  if (((p >> 4) - k[3]) < tail) {
    tail = (p >> 4) - k[3];
  }
  if (((p >> 6) - k[4]) < tail) {
    tail = (p >> 6) - k[4];
  }
  if (tail > 0) {
    tail = 0;
  }
  if ((m >> 1) > dip) {
    dip = m >> 1;
  }
  if (-k[1] > dip) {
    dip = -k[1];
  }
  if (tail > dip) {
    dip = tail;
  }
"""
}
IN_VTA = {VTA: "for k, bits in ((2, 3), (3, 1), (4, 2)):"}
BENDS = [
    (0, 0, 0, 0, 0),
    (1, 8, 15, 10, 3),
    (27, 137, 252, 170, 57),
    (ShiftSwishOp.MAX_BEND,) * 5,
    (0, ShiftSwishOp.MAX_BEND, 0, ShiftSwishOp.MAX_BEND, 0),
]


def _negated(a: Any) -> Any:
    """Compute `-a` as the program does, in 32 bits."""
    b = a << 15
    for times, bits in ((2, 1), (2, 3), (1, 9)):
        c = b
        for _ in range(times):
            c = c << bits
            b = b + c
    return b >> 15


def _program(q: Any, k: Any, most: Any, least: Any) -> Any:
    """Compute the steps of the program, without the requantization."""
    b = _negated(q)
    c = least(q, b)
    b = most(b, q)
    a = most(q, 0)
    d = (c >> 2) + -k[0]
    c = most(most(c >> 1, d), -k[1])
    d = 0 * q
    for i, bits in ((2, 3), (3, 1), (4, 2)):
        b = (b >> bits) + -k[i]
        d = least(d, b)
        b = b + k[i]
    return a + most(c, d)


def _kernel(q: Any, k: Any, most: Any, least: Any) -> Any:
    """Compute the C function."""
    p = most(q, -q)
    m = -p
    tail = least(least(least((p >> 3) - k[2], (p >> 4) - k[3]), (p >> 6) - k[4]), 0 * q)
    dip = most(most(most((m >> 2) - k[0], m >> 1), -k[1]), tail)
    return most(q, 0) + dip


@identity(
    relied_on={**IN_C, **IN_VTA},
    requires="q of 16 bits, bends in [0, 2^15)",
    checked_by=ROOM,
    by="all 16-bit q, 261 sets of bends",
    slow=True,
)
def swish_16_bits() -> None:
    """C's and VTA's pieces are equal to the pieces of `graph.shift_swish`."""
    q = every(16)
    drawn = np.random.default_rng(0).integers(0, ShiftSwishOp.MAX_BEND + 1, (256, 5))
    for k in (*BENDS, *map(tuple, drawn.tolist())):
        expected = shift_swish(q, [k])
        same(_kernel(q, k, np.maximum, np.minimum), expected, q)
        narrow = q.astype(np.int32)
        bends = np.array(k, np.int32)
        found = _program(narrow, bends, np.maximum, np.minimum)
        same(found.astype(np.int64), expected, q)


@identity(
    relied_on={VTA: "for times, bits in ((2, 1), (2, 3), (1, 9)):"},
    requires="-2^16 < a < 2^16",
    checked_by={VTA: "NEGATED_BITS = 17"},
    by="all 17-bit numbers",
)
def negation_by_shifts_and_sums() -> None:
    """A product with 2^18 - 1 modulo 2^32, after a shift by 15, is the negative."""
    a = np.arange(1 - (1 << 16), 1 << 16, dtype=np.int64)
    same(_negated(a.astype(np.int32)).astype(np.int64), -a, a)
