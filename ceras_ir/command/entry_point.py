"""
Define commands as entry points, with settings that precede slow imports.

`ceras` lists all commands from this module and the entry points: it imports little.
"""

import _thread
import gc
import mmap
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import IO, TYPE_CHECKING, NamedTuple

from ceras_ir.command.cached_methods import cache_methods
from ceras_ir.command.lazy_modules import load_lazily
from ceras_ir.command.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMAND_PREFIX = "ceras-"

USE, LOOK, DEVELOP = "use a model", "look inside", "develop the compiler"
GROUPS = (USE, LOOK, DEVELOP)
"""The groups of commands in the order of the list."""


# A dataclass would import `inspect`, which takes a sixth of the time of `ceras --help`.
class Command(NamedTuple):
    """
    A command of this package. The module of a command has the functions `main` and `make_parser`;
    completion and documentation use the latter.

    A call runs the command, with a single thread of OpenBLAS (the matrix products of numpy) unless
    the environment specifies another number.
    """

    name: str
    purpose: str
    """The purpose, in a sentence that begins with a verb."""
    module: str
    group: str = ""
    """The group in the list of commands."""

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """
        Run the command with the arguments `argv` (default: the command line), and return the exit
        status. An interrupt during imports prints one line, as it does later.
        """
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY and limit < MIN_ADDRESS_SPACE:
            print(
                f"{shown_name(self.name)}: error: out of memory: a command needs "
                f"{MIN_ADDRESS_SPACE >> 20} MiB, the limit is {limit >> 20}: raise it (ulimit -v)",
                file=sys.stderr,
            )
            return 1
        try:
            start_quickly()
            repeat_swallowed_interrupts()
            with uninterrupted(), uncollected():
                main: Callable[[Sequence[str] | None], int] = import_module(self.module).main
            return main(argv)
        # Any exception can be the consequence of an interrupt, or of an import without memory.
        except BaseException as error:
            if is_interrupt(error):
                print(f"{shown_name(self.name)}: interrupted", file=sys.stderr)
                return 130
            if not isinstance(error, SystemExit) and memory_is_short():
                print(f"{shown_name(self.name)}: error: {OUT_OF_MEMORY}", file=sys.stderr)
                return 1
            raise
        finally:
            if argv is None:
                # The result is complete. An interrupt during the exit of the interpreter would end
                # it by the signal, without a message.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                # After an interrupt in `exec` of a text, as of a data class, the interpreter would
                # end by the signal instead of with the status. The next `exec` resets this.
                exec("")
                # The interpreter would search all objects for garbage before memory is released.
                gc.freeze()


def start_quickly() -> None:
    """Prepare a process for a short command, before it imports other modules."""
    # Modules and IR have many objects that live until the end. By default, Python searches for
    # garbage after 700 new objects; a short command searches less often.
    gc.set_threshold(50_000, 20, 100)
    # Products are small and many, and idle threads of OpenBLAS spin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    cache_methods()
    load_lazily()


REPEAT_SECONDS = 0.01
"""The time after which an interrupt that had no effect is raised again."""


def repeat_swallowed_interrupts() -> None:
    """
    Raise an interrupt again if Python only prints it, because it occurred in a function that cannot
    raise, such as the callback of a weak reference of an import.
    """
    before, main = sys.unraisablehook, _thread.get_ident()

    def repeat() -> None:
        time.sleep(REPEAT_SECONDS)
        signal.pthread_kill(main, signal.SIGINT)

    def look(found: "sys.UnraisableHookArgs") -> None:
        if issubclass(found.exc_type, KeyboardInterrupt):
            # An interrupt inside this function would be lost.
            _thread.start_new_thread(repeat, ())
        else:
            before(found)

    if before is sys.__unraisablehook__:
        sys.unraisablehook = look


@contextmanager
def uncollected() -> Generator[None]:
    """
    Search for no garbage inside the block, and never among the objects that exist at the end:
    objects of modules remain.
    """
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


OUT_OF_MEMORY = "out of memory: check the shapes of the network and the limit of memory (ulimit -v)"

MIN_ADDRESS_SPACE = 288 << 20
"""
The limit of the address space below which no command starts. Small objects cannot be allocated
then, for which CPython 3.11 can repeat a handler of exceptions forever, and OpenBLAS ends the
process. Above it, arrays are the first allocations that fail, which is an error like any other.
"""

PROBED_BYTES = 64 << 20
"""The memory that a command needs at least in addition, to import the next modules."""


def memory_is_short() -> bool:
    """
    Return whether an allocation of `PROBED_BYTES` fails. If it does, any exception before, such as
    an `ImportError` or `SyntaxError`, can be due to missing memory.
    """
    try:
        mmap.mmap(-1, PROBED_BYTES).close()
    except OSError:
        return True
    return False


def is_interrupt(error: BaseException | None) -> bool:
    """
    Return whether `error` is a `KeyboardInterrupt`, or was raised while one was handled. Python
    3.11 replaces an interrupt in `__set_name__`, as of a cached property, by a `RuntimeError`.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def commands() -> "dict[str, EntryPoint]":
    """
    Return the entry points of the installed commands, by name without the prefix: `compile` for
    `ceras-compile`.
    """
    from importlib.metadata import distribution

    from ceras_ir.support.extensions import DISTRIBUTION, without_deleted

    scripts = distribution(DISTRIBUTION).entry_points.select(group="console_scripts")
    points = without_deleted(point for point in scripts if point.name.startswith(COMMAND_PREFIX))
    return {point.name.removeprefix(COMMAND_PREFIX): point for point in sorted(points)}


def discard(stream: IO[str]) -> None:
    """
    Redirect `stream` to the null device, so that the final flush of Python raises no error on a
    closed pipe.
    """
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


_SHOWN_NAMES: dict[str, str] = {}
"""The name of a command -> the words with which the user has called it."""


def shown_name(command: str) -> str:
    """
    Return the name of `command` as the user has typed it, for usage and messages: `ceras compile`
    or `ceras-compile`.
    """
    name, space, rest = command.partition(" ")
    return f"{_SHOWN_NAMES.get(name, name)}{space}{rest}"


@contextmanager
def shown_as(command: str, words: str) -> Generator[None]:
    """Print `command` as `words` in usage and messages inside the block."""
    _SHOWN_NAMES[command] = words
    try:
        yield
    finally:
        del _SHOWN_NAMES[command]
