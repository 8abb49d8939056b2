"""Define functions that tests run in other processes, which import them from this file."""

import os
import signal
from pathlib import Path


def square(number: int) -> int:
    return number * number


def die_once(argument: tuple[int, str]) -> int:
    number, marker = argument
    if number == 3 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_always(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail(number: int) -> int:
    raise ValueError(f"no {number}")
