"""Calls in several processes, by joblib where it is installed."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TypeVar, TypeVarTuple

from ceras_ir.support.diagnostics import UsageError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def parallel(function: Callable[[*Ts], T], arguments: Iterable[tuple[*Ts]], jobs: int) -> list[T]:
    """
    `function` of each of `arguments`, in their order. The function is one of a module, arguments
    and results can be pickled.
    """
    try:
        joblib = import_module("joblib")
    except ImportError:
        raise UsageError(
            "several jobs need joblib: pip install 'ceras-ir[parallel]', or leave out --jobs"
        ) from None
    return joblib.Parallel(n_jobs=jobs)((function, a, {}) for a in arguments)
