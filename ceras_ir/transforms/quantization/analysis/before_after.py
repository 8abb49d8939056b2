"""What passes note on the function: a number before and after what they have done."""

from xdsl.dialects.builtin import DictionaryAttr, FloatAttr, IntegerAttr, f32, i64
from xdsl.dialects.func import FuncOp
from xdsl.utils.hints import isa

REQUANTIZATIONS = "graph.requantizations"
"""Attribute of the function: rescalings at run time, before scales were aligned and after."""

NOISE = "graph.stored_noise"
"""Attribute of the function: decibels of stored values, before values got 16 bits and after."""


def note(main: FuncOp, name: str, before: float, after: float) -> None:
    """Write two numbers down: counts as integers, others in float32."""
    numbers = {"before": before, "after": after}
    main.attributes[name] = DictionaryAttr(
        {
            when: IntegerAttr(number, i64) if isinstance(number, int) else FloatAttr(number, f32)
            for when, number in numbers.items()
        }
    )


def alignment(main: FuncOp) -> tuple[int, int] | None:
    """How many rescalings there were before scales were aligned, and after, if they were."""
    counts = _noted(main, REQUANTIZATIONS)
    return None if counts is None else (int(counts[0]), int(counts[1]))


def stored_noise(main: FuncOp) -> tuple[float, float] | None:
    """Signal to noise of stored values in decibels, before values got 16 bits and after."""
    return _noted(main, NOISE)


def _noted(main: FuncOp, name: str) -> tuple[float, float] | None:
    known = main.attributes.get(name)
    if not isa(known, DictionaryAttr):
        return None
    before, after = (known.data.get(when) for when in ("before", "after"))
    if not isa(before, IntegerAttr | FloatAttr) or not isa(after, IntegerAttr | FloatAttr):
        return None
    return before.value.data, after.value.data
