"""Declare the options that several targets and passes have: the board, processes and tuning."""

from ceras_ir.support.options import option, options


@options
class TargetNameOptions:
    """The option of passes that depend on a target."""

    target: str | None = option(None, metavar="NAME", usual=True)
    """Use the properties of this target (default: no target)."""


@options
class BoardOptions:
    """The option of each target with boards, and of the passes that use a board."""

    board: str | None = option(None, metavar="NAME|FILE", usual=True)
    """Compile for this board: a built-in name or a file."""


@options
class ScheduleJobsOptions:
    """The option of targets and passes that search for schedules."""

    jobs: int = option(1, metavar="N")
    """Search for schedules in N processes, -1 for all cores; the result is the same."""


@options
class TuneOptions:
    """The options of targets that can measure the time of kernels to choose tiles and schedules."""

    tune: bool = option(False, tools=("ceras-compile",))
    """
    Choose tiles and schedules of layers by running candidates, on this machine, in a simulator or
    by --tune-runner; never slower than without, and cached.
    """
    tune_runner: str | None = option(None, metavar="CMD", tools=("ceras-compile",))
    """With --tune: run each candidate by this command."""
