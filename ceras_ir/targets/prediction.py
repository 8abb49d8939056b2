"""
What a target predicts of the time that a network takes.

The time of a layer stands in its entry of the report as `MICROSECONDS`; a `Prediction` says what
model that is, what one inference takes, and what the devices can do at most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MICROSECONDS = "microseconds"
"""The entry of a layer."""


@dataclass(frozen=True)
class Ceiling:
    """What one device does at most: the two lines of a roofline."""

    device: str
    macs_per_us: float
    bytes_per_us: float
    """To and from the memory that operands and results are in."""

    def to_json(self) -> dict[str, object]:
        return {
            "device": self.device,
            "macs_per_us": round(self.macs_per_us, 4),
            "bytes_per_us": round(self.bytes_per_us, 4),
        }


@dataclass(frozen=True)
class Prediction:
    """How long one inference takes, as modelled."""

    machine: str
    """Which machine, and its clock."""
    model: str
    """How it was computed, and what it leaves out, in a sentence."""
    ceilings: tuple[Ceiling, ...] = ()
    microseconds: float | None = None
    """Of one inference, where that is not the sum of the layers."""

    def to_json(self, layers: Sequence[Mapping[str, object]]) -> dict[str, object]:
        """For `report.json`; `layers` are the annotated entries."""
        times = [time for layer in layers if isinstance(time := layer.get(MICROSECONDS), float)]
        total = sum(times) if self.microseconds is None else self.microseconds
        return {
            "machine": self.machine,
            "model": self.model,
            MICROSECONDS: round(total, 3),
            "ceilings": [ceiling.to_json() for ceiling in self.ceilings],
        }
