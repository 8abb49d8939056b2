"""The command-line options that say where work runs, and where what it needs twice is kept."""

import argparse
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ceras_ir.command.tool_parser import ArgumentContainer
from ceras_ir.support.content_cache import DEFAULT_LIMIT
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.workers import LocalProcesses, ThisProcess, Workers, cores, with_workers

_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


def add_workers(group: ArgumentContainer, *, default: str = "one per core") -> None:
    """`--jobs` and `--scheduler`."""
    group.add_argument(
        "--jobs",
        type=_jobs,
        metavar="N",
        help=f"processes on this machine; 1 is this process alone, -1 one per core (default: "
        f"{default})",
    )
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="work on the Dask cluster of this scheduler, such as tcp://host:8786; TLS is a "
        "matter of Dask's own configuration",
    )


def add_cache(group: ArgumentContainer) -> None:
    """`--cache` and `--cache-size`."""
    group.add_argument(
        "--cache",
        metavar="DIR",
        help="where stages and results are kept under the digests of what they depend on; several "
        "processes may use it (default: ceras_ir/stages in the user's cache)",
    )
    group.add_argument(
        "--cache-size",
        type=_size,
        default=DEFAULT_LIMIT,
        metavar="BYTES",
        help="of the cache at most; what was not used for longest goes; K, M, G (default: 4G)",
    )


def cache_folder_of(arguments: argparse.Namespace) -> Path:
    """Where the cache is."""
    if arguments.cache is not None:
        return Path(arguments.cache).resolve()
    from ceras_ir.support.native import cache_folder

    return cache_folder() / "stages"


@contextmanager
def workers_of(
    arguments: argparse.Namespace, files: Mapping[str, str] | None = None, *, default: int | None
) -> Generator[Workers]:
    """The workers that the options ask for, also for passes; `files` are sent to a cluster."""
    if arguments.scheduler is not None:
        if arguments.jobs is not None:
            raise UsageError("--jobs is for this machine: leave it out, or --scheduler")
        from ceras_ir.support.dask_workers import DaskWorkers

        cluster = DaskWorkers(arguments.scheduler, files)
        try:
            with with_workers(cluster):
                yield cluster
        finally:
            cluster.close()
        return
    count = arguments.jobs or default or cores()
    count = cores() if count < 0 else count
    if count == 1:
        yield ThisProcess()
        return
    local = LocalProcesses(count)
    try:
        with with_workers(local):
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
