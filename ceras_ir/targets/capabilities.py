"""
What a target can tell about its machines: accelerators, boards, runs and predicted times.

Placement sees an accelerator as a device beside the CPU, with rules, reasons and modelled times.
Boards come with a target or from files. The manifest describes the compiled files for a run.
The time of a layer is in its entry of the report as `MICROSECONDS`; a `Prediction` names the
model, the time of one inference, and the limits of the devices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from xdsl.ir import Operation, SSAValue

from ceras_ir.support.diagnostics import InputError, did_you_mean

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.network.artefacts import TensorInfo


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


def board_files(package: str, suffix: str = ".toml") -> dict[str, Traversable]:
    """The files in `boards/` of a package, by name in that order; none without such a folder."""
    folder = files(package) / "boards"
    found = [f for f in folder.iterdir() if f.name.endswith(suffix)] if folder.is_dir() else []
    return {f.name.removesuffix(suffix): f for f in sorted(found, key=lambda f: f.name)}


def board_text(
    target: str,
    package: str,
    name: str,
    *,
    suffix: str = ".toml",
    known: Iterable[str] | None = None,
) -> str:
    """
    The text of a board: of a file that ends in `suffix`, or of one in `boards/` of a package, of
    those in `known` if it has others. Errors call them boards of `target`.
    """
    shipped = board_files(package, suffix)
    if not name.endswith(suffix) and name not in (names := sorted(known or shipped)):
        raise _unknown(target, name, names, suffix)
    try:
        return (shipped.get(name) or Path(name)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the board: {error}", name) from error


def _unknown(target: str, name: str, names: list[str], kind: str) -> InputError:
    return InputError(
        f"target {target} has no board '{name}'{did_you_mean(name, names)} (boards: "
        f"{', '.join(names)}; or a {kind} file)"
    )


Array: TypeAlias = "NDArray[np.generic]"
Sample: TypeAlias = "Mapping[str, Array]"
"""One inference's inputs by name."""

Trace: TypeAlias = Callable[[int, bytes], None]
"""Sees the number and the stored bytes of each step's result."""


@dataclass(frozen=True)
class Manifest:
    """What `manifest.json` of a compiled folder says, checked as far as every target needs it."""

    target: str
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    content: Mapping[str, object]
    """All of it, with the entries that the target added."""


class Executable(Protocol):
    """A network that can be run."""

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        """The outputs of each sample, by name, as they come."""
        ...


class Compiled(Executable, Protocol):
    """A compiled network, which can also show what it computes on the way."""

    def trace(self, sample: Sample, trace: Trace) -> None:
        """Run once; `trace` sees the number and the stored bytes of each step's result."""
        ...


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
