"""A metric that the user wrote: a function of outputs and labels."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Self, TypeAlias

import numpy as np

from ceras_ir.metrics.figures import Array, Chosen, Figure, Outputs, Reading
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.user_file import run_file

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
        raise InputError("no such file", path)
    return run_file(Path(path).stem, path)


def _load_module(path: str) -> ModuleType:
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        raise UsageError(f"--metric {path}: {error}") from None


class UserMetric:
    """Keeps all outputs, which the function wants at once."""

    def __init__(self, function: Function, labels: Array | None):
        self._function: Function | None = function
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

    def _values(self, outputs: list[Outputs]) -> Callable[[Chosen], Mapping[str, float]]:
        joined = {name: np.concatenate([o[name] for o in outputs]) for name in outputs[0]}
        last: tuple[bytes, Mapping[str, float]] = (b"", {})

        def read(chosen: Chosen) -> Mapping[str, float]:
            nonlocal last
            # All numbers of one choice come from one call.
            if last[0] != (key := chosen.tobytes()):
                labels = None if self._labels is None else self._labels[chosen]
                assert self._function is not None
                found = self._function({k: v[chosen] for k, v in joined.items()}, labels)
                named = found if isinstance(found, Mapping) else {"metric": float(found)}
                last = key, named
            return last[1]

        return read


def _named(values: Callable[[Chosen], Mapping[str, float]], name: str) -> Reading:
    return lambda chosen: float(values(chosen)[name])
