"""
Define the interfaces of accelerators, compiled networks and predicted times.

Placement treats an accelerator as a second device, with rules, reasons and modelled times. The
manifest describes a compiled folder. The report has the time of each layer under `MICROSECONDS`; a
`Prediction` has the model, the time of an inference and the limits of the devices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from xdsl.ir import Operation, SSAValue

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.network.artefacts import TensorInfo


GapRule: TypeAlias = Callable[[Operation, SSAValue], str | None]
"""Return `None` if an operation supports gaps between the rows of a value, else the reason."""


def takes_runs_only(op: Operation, value: SSAValue) -> str | None:
    """
    Return a reason why `op` cannot read or write `value` with gaps between the rows, as in a part
    of a larger tensor. This rule refuses gaps for all operations: a target uses it if the kernels
    support only contiguous tensors.
    """
    return "the target's kernels leave no gaps between rows"


@dataclass(frozen=True)
class Cost:
    """
    The modelled time of an operation in microseconds, on the CPU and on the accelerator `device`;
    `accelerator` is `None` if the accelerator does not support the operation.
    """

    cpu: float
    accelerator: float | None
    device: str
    note: str = ""
    """Further details of the cost model, for the report."""

    def __str__(self) -> str:
        if self.cpu == self.accelerator == 0.0 and not self.note:
            return "no time: the same bytes under another shape"
        other = "cannot" if self.accelerator is None else f"{self.accelerator:.1f} us"
        return f"cpu {self.cpu:.1f} us, {self.device} {other}{self.note}"


class Accelerator(ABC):
    """
    A device in addition to the CPU: the rules for the operations and, with a board, the modelled
    times.

    If `why_not` admits an operation, the lowering of the target must accept it.
    """

    device: str
    """The name of the device in `#mem.device`."""
    has_costs: bool = False
    """Whether `cost` and `transfer` are implemented, so that placement can use them."""

    @abstractmethod
    def why_not(self, op: Operation) -> str | None:
        """
        Return `None` if the device can run `op`. Otherwise return a sentence with the finding, the
        rule and the remedy.
        """

    def prepare(self, ops: Sequence[Operation]) -> None:
        """
        Analyse all operations that `why_not` admits, before the first call of `cost`. This is for
        costs that depend on several operations.
        """
        return None

    def must_run(self, op: Operation) -> bool:
        """
        Return whether `op`, which `why_not` admits, runs on the device even if the CPU is faster.
        """
        return False

    def host_operands(self, op: Operation) -> Sequence[int]:
        """
        Return the indices of operands of `op` that the CPU must prepare, for example pack, before
        the device runs `op`. The time is part of the cost on the device.
        """
        return ()

    def cost(self, op: Operation, *, admitted: bool) -> Cost:
        """
        Return the modelled times of `op` on the CPU and, if the rules of the device admit it
        (`admitted`), on the device.
        """
        raise NotImplementedError

    def transfer(self, value: SSAValue) -> float:
        """
        Return the modelled time in microseconds of a transfer of `value` between CPU and device.
        """
        raise NotImplementedError


Array: TypeAlias = "NDArray[np.generic]"
Sample: TypeAlias = "Mapping[str, Array]"
"""The inputs of an inference by name."""

Trace: TypeAlias = Callable[[int, bytes], None]
"""A function that receives the index and the stored bytes of each result."""


@dataclass(frozen=True)
class Manifest:
    """
    The content of `manifest.json` in a compiled folder. The entries that all targets have are
    checked.
    """

    target: str
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    content: Mapping[str, object]
    """All entries, including the entries of the target."""


class Executable(Protocol):
    """A network that can be run on samples."""

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        """Run each sample, and yield the outputs of each by name."""
        ...


class Compiled(Executable, Protocol):
    """A compiled network that can also trace intermediate results."""

    def trace(self, sample: Sample, trace: Trace) -> None:
        """
        Run a sample, and call `trace` with the index and the stored bytes of each intermediate
        result.
        """
        ...


class Emulated(Executable, Protocol):
    """
    A compiled network that runs on the emulator of another machine, such as a microcontroller.
    """

    @property
    def emulator(self) -> str:
        """The name of the emulator, and of the machine that it emulates."""
        ...


@dataclass(frozen=True)
class NotEmulated:
    """The reason why this machine cannot emulate a core, and the remedy."""

    reason: str
    remedy: str


MICROSECONDS = "microseconds"
"""The key of the time in the report entry of a layer."""


@dataclass(frozen=True)
class Ceiling:
    """The maximum rates of a device, as in a roofline model: products and bytes per microsecond."""

    device: str
    macs_per_us: float
    bytes_per_us: float
    """The bandwidth to and from the memory of operands and results."""

    def to_json(self) -> dict[str, object]:
        return {
            "device": self.device,
            "macs_per_us": round(self.macs_per_us, 4),
            "bytes_per_us": round(self.bytes_per_us, 4),
        }


@dataclass(frozen=True)
class ArenaBuffer:
    """
    Bytes of the arena (the memory of intermediate values) that hold no planned value but, for
    example, the workspace of a kernel. They are in use while operations `first_step` to
    `end_step - 1` run.
    """

    name: str
    """The layer that uses a workspace, or the state."""
    kind: str
    """The use of the bytes, such as `workspace` or `state`."""
    offset: int
    size: int
    first_step: int
    end_step: int
    region: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the entry among the buffers of `report.json`."""
        return asdict(self)


@dataclass(frozen=True)
class Prediction:
    """The modelled time of an inference."""

    machine: str
    """The name of the machine, and the clock."""
    model: str
    """The method and the omissions, as a sentence."""
    ceilings: tuple[Ceiling, ...] = ()
    microseconds: float | None = None
    """The modelled time of an inference, if it differs from the sum over the layers."""

    def to_json(self, layers: Sequence[Mapping[str, object]]) -> dict[str, object]:
        """
        Return the entry of `report.json`. `layers` are the entries of the layers, which already
        have the modelled time of each layer.
        """
        times = [time for layer in layers if isinstance(time := layer.get(MICROSECONDS), float)]
        total = sum(times) if self.microseconds is None else self.microseconds
        return {
            "machine": self.machine,
            "model": self.model,
            MICROSECONDS: round(total, 3),
            "ceilings": [ceiling.to_json() for ceiling in self.ceilings],
        }
