"""Running what a target compiled: the manifest that describes it, and the protocol of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.network.artefacts import TensorInfo

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
