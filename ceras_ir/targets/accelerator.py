"""A device beside the CPU, as placement sees it: rules with reasons, and modelled times."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

GapRule: TypeAlias = Callable[[Operation, SSAValue], str | None]
"""None where an operation can write or read a value of rows with gaps; else why not."""


def takes_runs_only(op: Operation, value: SSAValue) -> str | None:
    """The rule of a target whose kernels know no gaps."""
    return "the target's kernels leave no gaps between rows"


@dataclass(frozen=True)
class Cost:
    """Modelled microseconds of one operation on each side; None where the device cannot."""

    cpu: float
    accelerator: float | None
    device: str
    note: str = ""
    """What else the model says."""

    def __str__(self) -> str:
        if self.cpu == self.accelerator == 0.0 and not self.note:
            return "no time: the same bytes under another shape"
        other = "cannot" if self.accelerator is None else f"{self.accelerator:.1f} us"
        return f"cpu {self.cpu:.1f} us, {self.device} {other}{self.note}"


class Accelerator(ABC):
    """
    The rules of a device, and with a board its times.

    `why_not` is a promise: what it admits, the target's lowering takes.
    """

    device: str
    """What `#mem.device` calls it."""
    has_costs: bool = False
    """Whether `cost` and `transfer` hold, so that placement may weigh them."""

    @abstractmethod
    def why_not(self, op: Operation) -> str | None:
        """None if the device runs `op`; else one sentence: what was found, rule, way out."""

    def prepare(self, ops: Sequence[Operation]) -> None:
        """Look at all operations that the rules admit before the first cost is asked for."""
        return None

    def must_run(self, op: Operation) -> bool:
        """Whether an admitted operation runs on the device whatever it costs."""
        return False

    def host_operands(self, op: Operation) -> Sequence[int]:
        """
        Which operands the CPU reads wherever `op` runs, because it prepares them; what that takes
        is part of the cost on the device.
        """
        return ()

    def cost(self, op: Operation, *, admitted: bool) -> Cost:
        """Modelled time of `op` on each side."""
        raise NotImplementedError

    def transfer(self, value: SSAValue) -> float:
        """Microseconds for `value` to change sides."""
        raise NotImplementedError
