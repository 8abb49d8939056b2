"""Define options for the place of the work and for the cache."""

import argparse
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ceras_ir.command.tool_parser import ArgumentContainer
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.files import DEFAULT_LIMIT_BYTES
from ceras_ir.support.workers import LocalProcesses, ThisProcess, Workers, cores

_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


def add_workers(
    group: ArgumentContainer, *, jobs: str = "--jobs", default: str = "the number of cores"
) -> None:
    """Add `--jobs`, unless a target has such an option, and `--scheduler`."""
    group.add_argument(
        jobs,
        type=_jobs,
        metavar="N",
        help=f"processes on this machine; 1 is this process only, -1 the number of cores (default: "
        f"{default})",
    )
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="work on the Dask cluster of this scheduler, such as tcp://host:8786; TLS is "
        "configured in Dask",
    )


def add_cache(group: ArgumentContainer) -> None:
    """Add `--cache` and `--cache-size`."""
    group.add_argument(
        "--cache",
        metavar="DIR",
        help="store stages and results here, under the digests of their inputs; several "
        "processes may use it (default: ceras_ir/stages in the user's cache)",
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
    """Return the folder of the cache."""
    if arguments.cache is not None:
        return Path(arguments.cache).resolve()
    from ceras_ir.support.native import cache_folder

    return cache_folder() / "stages"


def digests_of(*texts: str | None) -> dict[str, str]:
    """Map the digest of each file in lists of paths to its path; a cluster gets no folders."""
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
) -> Generator[Workers]:
    """Yield the workers of the options, also for passes; `files` are sent to a cluster."""
    given: int | None = getattr(arguments, jobs.removeprefix("--"))
    if arguments.scheduler is not None:
        if given is not None:
            raise UsageError(
                f"{jobs} applies to this machine, and --scheduler to a cluster: remove one of them"
            )
        from ceras_ir.support.workers import DaskWorkers

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
    local = LocalProcesses(count)
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
