"""
Figures of merit of a float network and a quantized one, over samples.

A metric sees the outputs of one sample at a time and keeps what its figures need, so that memory
does not grow with the outputs. A figure can be read for any choice of samples: that is how its
standard error is found.

A metric that the user wrote: a function of outputs and labels.
"""

from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from traceback import extract_tb, format_exception_only
from types import CodeType, ModuleType
from typing import Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.support.diagnostics import InputError, UsageError, missing_file_remedy
from ceras_ir.support.files import run_file

Array: TypeAlias = NDArray[np.generic]
Outputs: TypeAlias = Mapping[str, Array]
Chosen: TypeAlias = NDArray[np.integer]
"""Numbers of samples, some of them several times."""
Reading: TypeAlias = Callable[[Chosen], float]

RESAMPLED = 50
"""How often samples are drawn again for a standard error."""

MOST = 300.0
"""Decibels of a network that is exact, so that differences are finite."""


@dataclass(frozen=True)
class Figure:
    """One number of a quantized network, and of the float one where it has that number too."""

    name: str
    quantized: Reading
    real: Reading | None = None
    cheap: bool = True
    """Whether it may be read often only to know its error."""


class Metric(Protocol):
    """Judges outputs, first axis samples: each call of `add` brings those of one more."""

    def add(self, real: Outputs, quantized: Outputs) -> None: ...

    def merge(self, following: Self) -> None:
        """Take in what another of the same kind saw of the samples behind these."""
        ...

    def figures(self) -> list[Figure]:
        """What was measured; called once, behind the last sample."""
        ...


def drawn(count: int) -> NDArray[np.integer]:
    """Choices of `count` samples out of as many, with replacement; the same at every call."""
    return np.random.default_rng(0).integers(0, count, (RESAMPLED, count))


def gain(before: Reading, after: Reading, count: int) -> tuple[float, float]:
    """By how much one reading exceeds another on all samples, and its standard error."""
    every = [np.arange(count), *drawn(count)]
    gains = [min(after(chosen), MOST) - min(before(chosen), MOST) for chosen in every]
    return gains[0], float(np.std(gains[1:]))


class Shares:
    """A share of each sample: so much out of so much."""

    def __init__(self) -> None:
        # Packed: there is one row for each of many samples.
        self._rows = array("d")

    def add(self, part: float, whole: float) -> None:
        self._rows.append(part)
        self._rows.append(whole)

    def merge(self, following: "Shares") -> None:
        """Take in the shares of the samples behind these."""
        self._rows.extend(following._rows)

    def total(self) -> tuple[float, float]:
        """The part and the whole of all samples."""
        return self.sums()(np.arange(len(self._rows) // 2))

    def sums(self) -> Callable[[Chosen], tuple[float, float]]:
        """The sum of the parts and the sum of the wholes."""
        rows = np.array(self._rows, np.float64).reshape(-1, 2)

        def read(chosen: Chosen) -> tuple[float, float]:
            part, whole = rows[chosen].sum(0)
            return float(part), float(whole)

        return read

    def reading(self) -> Reading:
        """The sum of the parts over the sum of the wholes; 0 of nothing."""
        sums = self.sums()

        def read(chosen: Chosen) -> float:
            part, whole = sums(chosen)
            return part / whole if whole else 0.0

        return read


def mean_of(readings: Sequence[Reading]) -> Reading:
    return lambda chosen: float(np.mean([reading(chosen) for reading in readings]))


@dataclass(frozen=True)
class Measured:
    """One number of the float network where it has one, and of the quantized."""

    name: str
    real: float | None
    quantized: float
    error: float | None = None
    """Of the difference, its standard error."""


def measured(figures: Sequence[Figure], count: int) -> list[Measured]:
    """All figures on all samples."""
    every, found = np.arange(count), list[Measured]()
    for figure in figures:
        if figure.real is None:
            found.append(Measured(figure.name, None, figure.quantized(every)))
            continue
        real = figure.real(every)
        error = gain(figure.real, figure.quantized, count)[1] if figure.cheap else None
        found.append(Measured(figure.name, real, figure.quantized(every), error))
    return found


Function: TypeAlias = Callable[[Outputs, Array | None], float | Mapping[str, float]]
"""From outputs by name and labels, if there are any, to one number or several with names."""


def load_function(text: str) -> Function:
    """The function of `FILE.py:FUNCTION` or `MODULE:FUNCTION`."""
    path, _, name = text.rpartition(":")
    module = _load_file(path) if path.endswith(".py") else _load_module(path)
    function: Function | None = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"has no function '{name}'", path)
    return function


def _load_file(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise InputError(f"no such file{missing_file_remedy(path)}", path)
    try:
        return run_file(Path(path).stem, path)
    except Exception as error:
        raise InputError(f"cannot be run: {_said(error)}", path) from error


def _load_module(path: str) -> ModuleType:
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        raise UsageError(f"--metric {path}: {error}") from None


@contextmanager
def _calling(function: Function, name: str) -> Generator[None]:
    """Say of what `function` raises that it is the user's, and where in it."""
    try:
        yield
    except Exception as error:
        file, _, called = name.rpartition(":")
        code: CodeType | None = getattr(function, "__code__", None)
        source = None if code is None else code.co_filename
        frames = extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == source]
        where = f" in line {lines[-1]}" if lines else ""
        raise InputError(
            f"the function '{called}' of --metric failed{where}: {_said(error)}", file or None
        ) from error


def _said(error: Exception) -> str:
    """The line that ends a traceback."""
    return "".join(format_exception_only(error)).strip().splitlines()[-1]


class UserMetric:
    """Keeps all outputs, which the function wants at once."""

    def __init__(self, function: Function, labels: Array | None, name: str = "metric"):
        """`name` is how the user wrote which function it is."""
        self._function: Function | None = function
        self._name = name
        self._labels = labels
        self._outputs: tuple[list[Outputs], list[Outputs]] = ([], [])

    def add(self, real: Outputs, quantized: Outputs) -> None:
        self._outputs[0].append(real)
        self._outputs[1].append(quantized)

    def merge(self, following: Self) -> None:
        for mine, others in zip(self._outputs, following._outputs, strict=True):
            mine += others
        if self._labels is not None and following._labels is not None:
            self._labels = np.concatenate([self._labels, following._labels])

    def use(self, function: Function) -> None:
        """Have `function` judge what was sent without it."""
        self._function = function

    def __getstate__(self) -> dict[str, object]:
        """Without the function, of a file perhaps: only who merges needs it."""
        return {**self.__dict__, "_function": None}

    def figures(self) -> list[Figure]:
        real, quantized = map(self._values, self._outputs)
        every = np.arange(len(self._outputs[0]))
        known = set(real(every))
        return [
            Figure(name, _named(quantized, name), _named(real, name) if name in known else None,
                   cheap=False)
            for name in quantized(every)
        ]  # fmt: skip

    def _values(self, found: list[Outputs]) -> Callable[[Chosen], Mapping[str, float]]:
        joined = {name: np.concatenate([o[name] for o in found]) for name in found[0]}
        last: tuple[bytes, Mapping[str, float]] = (b"", {})

        def read(chosen: Chosen) -> Mapping[str, float]:
            nonlocal last
            # All numbers of one choice come from one call.
            if last[0] != (key := chosen.tobytes()):
                labels = None if self._labels is None else self._labels[chosen]
                assert self._function is not None
                outputs = {k: v[chosen] for k, v in joined.items()}
                with _calling(self._function, self._name):
                    result = self._function(outputs, labels)
                    named = result if isinstance(result, Mapping) else {"metric": result}
                    last = key, {name: float(value) for name, value in named.items()}
            return last[1]

        return read


def _named(values: Callable[[Chosen], Mapping[str, float]], name: str) -> Reading:
    return lambda chosen: float(values(chosen)[name])
