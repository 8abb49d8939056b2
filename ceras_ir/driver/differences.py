"""What two runs of one network have in common, and where they part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.support.diagnostics import UnsupportedError

Array: TypeAlias = NDArray[np.generic]

SHOWN = 4
"""Outputs whose noise is told one by one."""

FLOAT_TOLERANCE = 1e-4
"""Largest difference allowed between float levels, relative to the largest value of a tensor."""


@dataclass(frozen=True)
class Verdict:
    """The line that one level gets."""

    level: str
    good: bool
    text: str
    refused: UnsupportedError | None = None
    """Why a target does not take the network; nothing differs then."""

    @property
    def exit_status(self) -> int:
        """Of a command that comes to this verdict and no other."""
        return 0 if self.good else self.refused.exit_status if self.refused else 1


def first_difference(actual: Array, expected: Array) -> tuple[tuple[int, ...], str] | None:
    """The first element whose stored value differs, with both values; None if none does."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        kinds = (
            f"{actual.dtype}{list(actual.shape)}, expected {expected.dtype}{list(expected.shape)}"
        )
        return (), kinds
    # Bits, not values: a NaN equals itself, and 0.0 differs from -0.0.
    width = f"u{actual.dtype.itemsize}"
    differs = np.ascontiguousarray(actual).view(width) != np.ascontiguousarray(expected).view(width)
    if not differs.any():
        return None
    index = tuple(int(i) for i in np.argwhere(differs)[0])
    return index, f"{actual[index]}, expected {expected[index]}"


def relative_difference(actual: Array, expected: Array) -> float:
    """
    Largest difference relative to the largest finite magnitude that is expected; infinite where
    one is NaN or infinite and the other is not the same.
    """
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    differs = (a != e) & ~(np.isnan(a) & np.isnan(e))
    scale = float(np.abs(e[np.isfinite(e)]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        difference = np.abs(a[differs] - e[differs])
    return float(np.nan_to_num(difference, nan=np.inf, posinf=np.inf).max(initial=0.0)) / scale


def signal_to_noise(actual: Sequence[Array], expected: Sequence[Array]) -> float:
    """Power of the signal over that of the error, in decibels."""
    with np.errstate(invalid="ignore"):  # Of infinities: the ratio is no number either.
        signal = sum(float(np.square(e.astype(np.float64)).sum()) for e in expected)
        noise = sum(
            float(np.square(a.astype(np.float64) - e.astype(np.float64)).sum())
            for a, e in zip(actual, expected, strict=True)
        )
        return float("inf") if noise == 0 else 10 * float(np.log10(max(signal, 1e-300) / noise))


def flat(outputs: Sequence[Mapping[str, Array]]) -> list[Array]:
    """All arrays of the outputs of several samples."""
    return [array for each in outputs for array in each.values()]


def describe_noise(
    actual: Sequence[Mapping[str, Array]], expected: Sequence[Mapping[str, Array]]
) -> str:
    """
    The signal-to-noise ratio of all outputs, and where there are several, of each: those with the
    most noise, of many.
    """
    whole = f"signal to noise {signal_to_noise(flat(actual), flat(expected)):.1f} dB"
    names = list(expected[0]) if expected else []
    if len(names) < 2:
        return whole
    ratios = {
        name: signal_to_noise([a[name] for a in actual], [e[name] for e in expected])
        for name in names
    }
    shown = names if len(names) <= SHOWN else sorted(names, key=lambda name: ratios[name])[:SHOWN]
    each = ", ".join(f"{name} {ratios[name]:.1f}" for name in shown)
    return f"{whole} ({each}{'' if len(shown) == len(names) else ', and others less noisy'})"


def compare_outputs(
    actual: Mapping[str, Array], expected: Mapping[str, Array], *, exact: bool
) -> str | None:
    """What differs between two sets of outputs, in words; None if they agree."""
    for name, reference in expected.items():
        if exact:
            found = first_difference(actual[name], reference)
            if found is not None:
                index, values = found
                return f"output '{name}'{list(index)} is {values}"
        elif (error := relative_difference(actual[name], reference)) > FLOAT_TOLERANCE:
            return f"output '{name}' is off by {error:.2g}, relative; allowed {FLOAT_TOLERANCE:g}"
    return None
