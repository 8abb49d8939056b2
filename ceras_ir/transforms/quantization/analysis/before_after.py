"""What passes note on the function: numbers before and after what they have done."""

from xdsl.dialects.builtin import DictionaryAttr, FloatAttr, IntegerAttr, f32, i64
from xdsl.dialects.func import FuncOp
from xdsl.utils.hints import isa

REQUANTIZATIONS = "graph.requantizations"
"""Attribute of the function: rescalings at run time, before scales were aligned and after."""

NOISE = "graph.stored_noise"
"""
Attribute of the function: decibels of stored values, estimated before values got 16 bits and after,
and measured after.
"""


def note(main: FuncOp, name: str, **numbers: float) -> None:
    """Write numbers down: counts as integers, others in float32; without numbers, remove them."""
    if not numbers:
        main.attributes.pop(name, None)
        return
    main.attributes[name] = DictionaryAttr(
        {
            when: IntegerAttr(number, i64) if isinstance(number, int) else FloatAttr(number, f32)
            for when, number in numbers.items()
        }
    )


def alignment(main: FuncOp) -> tuple[int, int] | None:
    """How many rescalings there were before scales were aligned, and after, if they were."""
    counts = _noted(main, REQUANTIZATIONS)
    return (int(counts["before"]), int(counts["after"])) if counts else None


def stored_noise(main: FuncOp) -> dict[str, float]:
    """Signal to noise of stored values in decibels: `before`, `after` and `measured`, if noted."""
    return _noted(main, NOISE)


def _noted(main: FuncOp, name: str) -> dict[str, float]:
    known = main.attributes.get(name)
    if not isa(known, DictionaryAttr):
        return {}
    return {
        when: number.value.data
        for when, number in known.data.items()
        if isinstance(number, IntegerAttr | FloatAttr)
    }
