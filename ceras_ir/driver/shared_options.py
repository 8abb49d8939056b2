"""
Define options that several commands have: inputs of the model, targets, workers and the cache.

The options of a target are the fields of its class. A tool lists the options of the targets on its
command line. An option of any other target is refused with the name of that target.
"""

import argparse
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar

from ceras_ir.command.help_parser import usual
from ceras_ir.command.tool_parser import (
    ArgumentContainer,
    ToolParser,
    add_options,
    early_value,
    values_of,
)
from ceras_ir.network.lengths import Lengths, Shape, lengths_of, parse_shapes
from ceras_ir.pipeline.context import plugin_loader
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.files import DEFAULT_LIMIT_BYTES
from ceras_ir.support.limits import (
    DEFAULT_MEMORY_BYTES,
    MEMORY_FLAG,
    MEMORY_VARIABLE,
    TIME_LIMITS,
)
from ceras_ir.support.options import docstring, flag_of, option, options, options_of
from ceras_ir.targets.protocol import (
    Target,
    all_targets,
    board_owners,
    find_target,
    refuse_foreign_board,
    unknown_target,
    with_board,
)

if TYPE_CHECKING:
    from ceras_ir.support.workers import Workers


MAX_SHOWN = 60
"""The characters of an invalid option that a message shows."""

BOOLEAN_WORDS = {"true": "1", "false": "0"}
"""The words for elements of a boolean input."""


def _shape(text: str) -> tuple[str, tuple[Shape, ...]]:
    name, _, shapes = text.rpartition("=")
    try:
        if not name:
            raise ValueError("expected NAME=1x3x224x224")
        return name, parse_shapes(shapes)
    except ValueError as error:
        shown = text if len(text) < MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
        raise argparse.ArgumentTypeError(f"{error}, got {shown!r}") from None


def _numbers(text: str) -> tuple[str, tuple[float, ...]]:
    name, _, numbers = text.rpartition("=")
    try:
        found = tuple(
            float(BOOLEAN_WORDS.get(number.lower(), number)) for number in numbers.split(",")
        )
    except ValueError:
        found = ()
    if not name or not found:
        raise argparse.ArgumentTypeError(
            f"expected NAME=16000, a list such as NAME=1,2, or NAME=true, got {text!r}"
        )
    return name, found


def _pair(text: str) -> tuple[str, str]:
    name, _, result = text.rpartition("=")
    if not name or not result:
        raise argparse.ArgumentTypeError(f"expected INPUT=OUTPUT, got {text!r}")
    return name, result


@options
class ShapeOptions:
    """The options for symbolic dimensions and inputs of a model."""

    batch: int = option(1, metavar="N", minimum=1)
    """Set a symbolic batch dimension to N."""
    shape: tuple[tuple[str, tuple[Shape, ...]], ...] = option(
        (), metavar="NAME=1x3x224x224", action="append", read=_shape, usual=True
    )
    """
    Set the shape of an input with symbolic dimensions; for each such input. ceras-compile and
    ceras-run also take several, such as NAME=1x32..512:32 or NAME=1x32,1x64: one program for all.
    For a value inside an ONNX model, NAME=1x3x0..480x0..640 is the maximum of extents that data
    decide.
    """
    set: tuple[tuple[str, tuple[float, ...]], ...] = option(
        (), metavar="NAME=16000", action="append", read=_numbers
    )
    """
    Fix an input to a number, or to a list of numbers with commas: it is removed, and conditions
    that depend on it are evaluated; may be repeated.
    """


@options
class StateOptions:
    """The option that declares states."""

    state: tuple[tuple[str, str], ...] = option(
        (), metavar="INPUT=OUTPUT", action="append", read=_pair
    )
    """
    Keep an output from call to call as this input, and hide both from callers; the first call uses
    zeros; may be repeated.
    """


@options
class BisectPassesOptions:
    """The option of the search for the first pass that changes a value."""

    bisect_passes: bool = option(False)
    """
    Run the network after each pass that must change no value, on the first or on synthetic inputs,
    and stop at the first that changes a value, with a reproducer.
    """


Value = TypeVar("Value")


class Bindings(TypedDict):
    """
    The settings of the inputs of a model: the batch, shapes by input, and fixed values by input.
    """

    batch: int
    shapes: dict[str, tuple[int, ...]]
    values: dict[str, tuple[float, ...]]


class Interface(Bindings):
    """
    The settings of `Bindings` and `states`, which maps an input to the output of the previous call
    that it receives.
    """

    states: dict[str, str]


def interface_of(
    arguments: argparse.Namespace, shapes: Mapping[str, Shape] | None = None
) -> Interface:
    """
    Return the settings of inputs and states in parsed arguments. `shapes` are the shapes of inputs
    at one of several lengths.
    """
    return {**bindings_of(arguments, shapes), "states": dict(arguments.state)}


def bindings_of(
    arguments: argparse.Namespace | ShapeOptions, shapes: Mapping[str, Shape] | None = None
) -> Bindings:
    """
    Return the settings of `ShapeOptions` in parsed arguments. Without `shapes`, several lengths of
    an input are refused.
    """
    return {
        "batch": arguments.batch,
        "shapes": single_shapes(arguments) if shapes is None else dict(shapes),
        "values": _unique("--set", arguments.set),
    }


def given_lengths(arguments: argparse.Namespace | ShapeOptions) -> Lengths | None:
    """
    Return the lengths of an input that `--shape` specifies, or `None` if each input has a single
    shape.
    """
    return lengths_of(_unique("--shape", arguments.shape))


def single_shapes(arguments: argparse.Namespace | ShapeOptions) -> dict[str, Shape]:
    """
    Return the shape of each input in `--shape`. Raise a `UsageError` if an input has several
    lengths.
    """
    shapes = _unique("--shape", arguments.shape)
    if (lengths := lengths_of(shapes)) is not None:
        raise UsageError(
            f"--shape: '{lengths.input}' has {len(lengths.values)} lengths, and this command takes "
            f"a single length: give a shape such as {lengths.largest}. Check each with its "
            "shape: a float program of several lengths computes the bits of the program of each"
        )
    return {name: found[0] for name, found in shapes.items()}


def _unique(option: str, given: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    """
    Return the value for each input from `given`, pairs of an input and a value. Raise a
    `UsageError` that names `option` if an input has two values.
    """
    names = [name for name, _ in given]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"{option} is given twice for input '{twice[0]}': remove one")
    return dict(given)


BOARD = "board"

TargetClass = type[Target]


def compiling_targets() -> list[TargetClass]:
    """Return the targets that write files, in the order of names."""
    return [target for target in all_targets() if target.compiles]


def reference_target() -> TargetClass:
    """Return the interpreter, the target that writes no files and defines the results."""
    return next(target for target in all_targets() if not target.compiles)


def native_target() -> TargetClass:
    """Return the target with compiled networks that run on this machine at full speed."""
    return next(target for target in all_targets() if target.runs_natively)


def model_target() -> TargetClass:
    """Return the target that writes a network as a model file."""
    return next(target for target in all_targets() if target.writes_models)


def named_target(
    argv: Sequence[str], known: Sequence[TargetClass] | None = None
) -> TargetClass | None:
    """
    Return the target after `--target` in `argv`, or `None`. Raise a `UsageError` if it is not in
    `known` (default: all targets). It is needed before the parser is made, because it decides the
    options.
    """
    name = early_value(argv, "--target")
    if name is None:
        return None
    if known is not None and name not in (names := [cls.name for cls in known]):
        raise unknown_target(name, names)
    return find_target(name)


def add_target(
    group: ArgumentContainer,
    targets: Sequence[TargetClass],
    text: str,
    *,
    required: bool = False,
) -> None:
    """Add the option `--target` with the choices `targets` and the help `text`."""
    choices = [cls.name for cls in targets]
    usual(group.add_argument("--target", choices=choices, required=required, help=text))


def described_targets(targets: Sequence[TargetClass]) -> str:
    """Return the end of the help: the name and description of each target."""
    lines = [f"{cls.name}: {docstring(cls).partition(chr(10))[0]}" for cls in targets]
    return "targets: " + " ".join(lines)


def add_target_options(parser: ToolParser, targets: Sequence[TargetClass]) -> None:
    """Add the options that the targets declare. An option of several targets is added once."""
    groups = parser.add_argument_group(
        f"target {', '.join(cls.name for cls in targets)}",
        "; ".join(f"{cls.name}: {cls.arithmetic}" for cls in targets if cls.compiles) or None,
    )
    added = set[str]()
    for cls in targets:
        own = {each.name for each, _ in options_of(cls, parser.tool)} - added
        add_options(groups, cls, own, tool=parser.tool, sparse=True)
        added |= own
    parser.explanations.insert(0, lambda flag: _for_another(flag, targets, parser.tool))


def _for_another(flag: str, targets: Sequence[TargetClass], tool: str) -> str | None:
    """
    Return the message about the option `flag` if only targets other than `targets` have it; `None`
    if no target has it. `tool` is the command.
    """
    owners = [
        cls.name
        for cls in compiling_targets()
        if flag in [flag_of(field) for field, _ in options_of(cls, tool)]
    ]
    if not owners:
        return None
    what = f"target{'s' * (len(owners) > 1)} {', '.join(owners)}"
    chosen = ", ".join(cls.name for cls in targets)
    return f"{flag} is an option of {what}" + (f", not {chosen}" if chosen else "")


def target_of(cls: TargetClass, arguments: argparse.Namespace) -> Target:
    """Return an instance of `cls` with the options in parsed `arguments`."""
    values = values_of(cls, arguments, arguments.tool)
    if isinstance(board := values.get(BOARD), str):
        refuse_foreign_board(cls, board)
    return replace(cls(), **values)


def targets_of(classes: Sequence[TargetClass], arguments: argparse.Namespace) -> list[Target]:
    """
    Return an instance of each class with the options in parsed `arguments`. A board applies to the
    targets that have it. Raise an error if no target has it.
    """
    board: str | None = getattr(arguments, BOARD, None)
    other_arguments = argparse.Namespace(**{k: v for k, v in vars(arguments).items() if k != BOARD})
    targets = [target_of(cls, other_arguments) for cls in classes]
    if board is None:
        return targets
    found = [_on_board(target, board) for target in targets]
    errors = [each for each in found if isinstance(each, InputError)]
    if len(errors) == len(classes):
        if len(errors) == 1 or not board.isidentifier() or board_owners(board):
            raise errors[0]
        known = "; ".join(f"{t.name}: {', '.join(t.boards()) or 'none'}" for t in targets)
        raise UsageError(f"no target knows the board '{board}'; boards are {known}")
    pairs = zip(targets, found, strict=True)
    return [old if isinstance(new, InputError) else new for old, new in pairs]


def _on_board(target: Target, board: str) -> Target | InputError:
    try:
        return with_board(target, board)
    except InputError as error:
        return error


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
