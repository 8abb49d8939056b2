"""
Define the options for worker processes, limits of time and memory, and the cache.
"""

import argparse
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from ceras_ir.command.tool_parser import (
    ArgumentContainer,
)
from ceras_ir.pipeline.context import plugin_loader
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.files import DEFAULT_LIMIT_BYTES
from ceras_ir.support.limits import (
    DEFAULT_MEMORY_BYTES,
    MEMORY_FLAG,
    MEMORY_VARIABLE,
    TIME_LIMITS,
)

if TYPE_CHECKING:
    from ceras_ir.support.workers import Workers


_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


def add_workers(
    group: ArgumentContainer, *, jobs: str = "--jobs", default: str = "the number of cores"
) -> None:
    """
    Add `--scheduler` and, under the flag `jobs`, the number of processes. `default` is the text
    about the default in the help.
    """
    group.add_argument(
        jobs,
        type=_jobs,
        metavar="N",
        help=f"processes on this machine, -1 for all cores (default: {default})",
    )
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="work on the Dask cluster of this scheduler, such as tcp://host:8786; Dask "
        "configures TLS",
    )


class _SetVariable(argparse.Action):
    """
    Set an environment variable to the value of the option, so that worker processes inherit it.
    """

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, values: object, *_: object
    ) -> None:
        os.environ[VARIABLES[self.option_strings[0]]] = str(values)


VARIABLES = {
    **{limit.flag: limit.variable for limit in TIME_LIMITS},
    MEMORY_FLAG: MEMORY_VARIABLE,
}
"""The variables that the options about limits set."""


def add_limits(group: ArgumentContainer) -> None:
    """Add the options for time limits of external programs, and for the memory of arrays."""
    for limit in TIME_LIMITS:
        group.add_argument(
            limit.flag,
            action=_SetVariable,
            type=_seconds,
            default=argparse.SUPPRESS,
            metavar="SECONDS",
            help=f"stop {limit.programs} that does not end within this time (default: "
            f"{limit.default_s:g})",
        )
    group.add_argument(
        MEMORY_FLAG,
        action=_SetVariable,
        type=_size,
        default=argparse.SUPPRESS,
        metavar="BYTES",
        help="refuse a file whose arrays need more bytes in memory, with K, M or G (default: "
        f"{DEFAULT_MEMORY_BYTES >> 30}G)",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return seconds


def add_cache(group: ArgumentContainer) -> None:
    """Add `--cache` and `--cache-size`."""
    group.add_argument(
        "--cache",
        metavar="DIR",
        help="store stages and results here; several processes may use it (default: "
        "ceras_ir/stages in the user's cache)",
    )
    group.add_argument(
        "--cache-size",
        type=_size,
        default=DEFAULT_LIMIT_BYTES,
        metavar="BYTES",
        help="the maximum size of the cache, with K, M or G; the least recently used results are "
        "deleted (default: 4G)",
    )


def cache_folder_of(arguments: argparse.Namespace) -> Path:
    """
    Return the folder with the cache of compiled stages: `--cache` or, by default, a folder in the
    cache of the user.
    """
    if arguments.cache is not None:
        return Path(arguments.cache).resolve()
    from ceras_ir.support.native import cache_folder

    return cache_folder() / "stages"


def digests_of(*texts: str | None) -> dict[str, str]:
    """
    Map the digest of each file to the path. `texts` are lists of paths separated by commas; folders
    are omitted, because they are not sent to a cluster.
    """
    from ceras_ir.pipeline.stage_cache import digest_of

    paths = [part.partition("?")[0] for text in texts if text for part in text.split(",")]
    return {digest_of(path): path for path in paths if Path(path).is_file()}


@contextmanager
def workers_of(
    arguments: argparse.Namespace,
    files: Mapping[str, str] | None = None,
    *,
    jobs: str = "--jobs",
    default: int | None,
) -> Generator["Workers"]:
    """
    Yield the workers that the options select (this process, several processes, or a cluster);
    passes inside the block use them too. `files` maps digests to paths that are sent to a cluster.
    `jobs` is the flag for the number of processes, and `default` that number without the flag.
    """
    from ceras_ir.support.workers import DaskWorkers, LocalProcesses, ThisProcess, cores

    given: int | None = getattr(arguments, jobs.removeprefix("--"))
    if arguments.scheduler is not None:
        if given is not None:
            raise UsageError(
                f"{jobs} applies to this machine, and --scheduler to a cluster: remove one of them"
            )
        cluster = DaskWorkers(arguments.scheduler, files)
        try:
            yield cluster
        finally:
            cluster.close()
        return
    count = given or default or cores()
    count = cores() if count < 0 else count
    if count == 1:
        yield ThisProcess()
        return
    local = LocalProcesses(count, plugin_loader())
    try:
        yield local
    finally:
        local.close()


def _jobs(text: str) -> int:
    number = int(text) if text.removeprefix("-").isdecimal() else 0
    if number < -1 or number == 0:
        raise argparse.ArgumentTypeError(f"must be at least 1, or -1 for all cores, got {text}")
    return number


def _size(text: str) -> int:
    unit = _UNITS.get(text[-1:].upper())
    digits = text if unit is None else text[:-1]
    if not digits.isdecimal() or int(digits) == 0:
        raise argparse.ArgumentTypeError(f"must be bytes such as 500M or 4G, got {text}")
    return int(digits) << (unit or 0)
