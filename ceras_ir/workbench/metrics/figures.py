"""
Compute figures of merit of a float and a quantized network over samples.

A metric receives the outputs of a sample at a time and stores only the data of the figures, so that
memory does not grow with the outputs. A figure can be computed for any selection of samples, from
which the standard error follows. `UserMetric` calls a function of the user.
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
from ceras_ir.support.plugin_modules import load_plugin

Array: TypeAlias = NDArray[np.generic]
Outputs: TypeAlias = Mapping[str, Array]
Chosen: TypeAlias = NDArray[np.integer]
"""Indices of samples, possibly repeated."""
Reading: TypeAlias = Callable[[Chosen], float]

RESAMPLINGS = 50
"""The number of resamplings for a standard error."""

MAX_DECIBELS = 300.0
"""The ratio of an exact network, so that differences are finite."""


@dataclass(frozen=True)
class Figure:
    """
    A metric, such as the accuracy, of the quantized network and, if it exists, of the float network
    (`real`). Each is a function of the indices of the samples over which it is computed.
    """

    name: str
    quantized: Reading
    real: Reading | None = None
    cheap: bool = True
    """
    Whether the metric is fast to compute, so that it is computed for random selections of samples,
    which give the standard error.
    """


class Metric(Protocol):
    """
    The interface of a metric over samples. `add` receives the outputs of both networks for a
    sample.
    """

    def add(self, real: Outputs, quantized: Outputs) -> None: ...

    def merge(self, following: Self) -> None:
        """Add the results of `following`, a metric of the samples that follow."""
        ...

    def figures(self) -> list[Figure]:
        """
        Return the metrics, each as a function of selected samples. This is called a single time,
        after the last sample.
        """
        ...


def drawn(count: int) -> NDArray[np.integer]:
    """
    Return random selections of `count` samples with replacement, for standard errors by bootstrap:
    indices [RESAMPLINGS, count], equal in each call.
    """
    return np.random.default_rng(0).integers(0, count, (RESAMPLINGS, count))


def gain(before: Reading, after: Reading, count: int) -> tuple[float, float]:
    """
    Return the value of `after` minus that of `before` over all `count` samples, and the standard
    error of this difference.
    """
    every = [np.arange(count), *drawn(count)]
    gains = [
        min(after(chosen), MAX_DECIBELS) - min(before(chosen), MAX_DECIBELS) for chosen in every
    ]
    return gains[0], float(np.std(gains[1:]))


class Shares:
    """
    Two numbers for each sample, a part and a total, such as the correct pixels and all pixels. A
    metric is the sum of the parts divided by the sum of the totals.
    """

    def __init__(self) -> None:
        # Packed, because each sample has a row.
        self._rows = array("d")

    def add(self, part: float, total: float) -> None:
        self._rows.append(part)
        self._rows.append(total)

    def merge(self, following: "Shares") -> None:
        """Add the parts and totals of the following samples."""
        self._rows.extend(following._rows)

    def total(self) -> tuple[float, float]:
        """Return the sum of the parts and the sum of the totals of all samples."""
        return self.sums()(np.arange(len(self._rows) // 2))

    def sums(self) -> Callable[[Chosen], tuple[float, float]]:
        """
        Return a function of sample indices, which returns the sums of the parts and of the totals.
        """
        rows = np.array(self._rows, np.float64).reshape(-1, 2)

        def read(chosen: Chosen) -> tuple[float, float]:
            part, total = rows[chosen].sum(0)
            return float(part), float(total)

        return read

    def reading(self) -> Reading:
        """
        Return a function of sample indices, which returns the sum of the parts divided by the sum
        of the totals; 0 if the latter is 0.
        """
        sums = self.sums()

        def read(chosen: Chosen) -> float:
            part, total = sums(chosen)
            return part / total if total else 0.0

        return read


def mean_of(readings: Sequence[Reading]) -> Reading:
    return lambda chosen: float(np.mean([reading(chosen) for reading in readings]))


@dataclass(frozen=True)
class Measured:
    """
    The value of a metric over all samples, for the quantized network and, if it exists, for the
    float network (`real`).
    """

    name: str
    real: float | None
    quantized: float
    error: float | None = None
    """The standard error of the difference between both networks; `None` if it was not computed."""


def measured(figures: Sequence[Figure], count: int) -> list[Measured]:
    """Return the value of each metric over all `count` samples."""
    every, found = np.arange(count), list[Measured]()
    for figure in figures:
        if figure.real is None:
            found.append(Measured(figure.name, None, figure.quantized(every)))
            continue
        real = figure.real(every)
        error = gain(figure.real, figure.quantized, count)[1] if figure.cheap else None
        found.append(Measured(figure.name, real, figure.quantized(every), error))
    return found


MetricFunction: TypeAlias = Callable[[Outputs, Array | None], float | Mapping[str, float]]
"""
A function of outputs by name and of labels, or `None`, that returns a number or named numbers.
"""


def load_function(text: str) -> MetricFunction:
    """Return the Python function that the user names as `FILE.py:FUNCTION` or `MODULE:FUNCTION`."""
    path, _, name = text.rpartition(":")
    module = _load_file(path) if path.endswith(".py") else _load_module(path)
    function: MetricFunction | None = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"has no function '{name}'", path)
    return function


def _load_file(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise InputError(f"no such file{missing_file_remedy(path)}", path)
    try:
        return load_plugin(path)
    except Exception as error:
        raise InputError(f"cannot be run: {_message(error)}", path) from error


def _load_module(path: str) -> ModuleType:
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--metric {path}: {error}; install the module, or give FILE.py:FUNCTION"
        ) from None


@contextmanager
def _calling(function: MetricFunction, name: str) -> Generator[None]:
    # Errors of the function name the function of the user and the line.
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
            f"the function '{called}' of --metric failed{where}: {_message(error)}", file or None
        ) from error


def _message(error: Exception) -> str:
    return "".join(format_exception_only(error)).strip().splitlines()[-1]


class UserMetric:
    """
    A metric that a function of the user computes from the outputs of all samples, which are stored.
    """

    def __init__(self, function: MetricFunction, labels: Array | None, name: str = "metric"):
        """Create a metric; `name` is the user's spelling of the function."""
        self._function: MetricFunction | None = function
        self._name = name
        self._labels = labels
        self._outputs: tuple[list[Outputs], list[Outputs]] = ([], [])

    def add(self, real: Outputs, quantized: Outputs) -> None:
        self._outputs[0].append(real)
        self._outputs[1].append(quantized)

    def merge(self, following: Self) -> None:
        for outputs, more in zip(self._outputs, following._outputs, strict=True):
            outputs += more
        if self._labels is not None and following._labels is not None:
            self._labels = np.concatenate([self._labels, following._labels])

    def use(self, function: MetricFunction) -> None:
        """Set the function again after unpickling, since it is not pickled."""
        self._function = function

    def __getstate__(self) -> dict[str, object]:
        """Return the state for pickling without the function, which cannot always be pickled."""
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
            # A single call returns all numbers of a selection.
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
