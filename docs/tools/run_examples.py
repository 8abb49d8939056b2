"""
Run the shell examples of pages (blocks marked `console`) and update their output.

A line `$ command` is run by bash, lines `> ...` continue it, and the following lines are the
output of both streams. A line `...` replaces omitted output: the number of lines before and after
it is kept from the start and the end. The last command of a block marked `console exit=3` ends
with that status, other commands with 0. The blocks of a page run in order in a temporary folder
with a link to `examples`.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console(?: exit=(\d+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = "..."
TIMEOUT = 300


class ExampleFailedError(Exception):
    """A command ended with a status that differs from the page."""


def refresh(page: str) -> str:
    """Return `page` with the current output of each example."""
    with TemporaryDirectory(prefix="ceras-docs-") as name:
        folder = Path(name)
        (folder / "examples").symlink_to(ROOT / "examples")

        def block(match: re.Match[str]) -> str:
            opening = match[0].partition("\n")[0]
            commands = list(_commands(match[2]))
            statuses = [*([0] * (len(commands) - 1)), int(match[1] or 0)]
            lines = [opening]
            for (command, shown), status in zip(commands, statuses, strict=True):
                lines += [_prompt(command), *_shorten(_run(command, status, folder), shown)]
            return "\n".join([*lines, "```"])

        return BLOCK.sub(block, page)


def _commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of a block, each with the output on the page."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        while shown and (shown[0] == ">" or shown[0].startswith("> ")):
            command += "\n" + shown.pop(0)[2:]
        yield command, shown


def _prompt(command: str) -> str:
    return "$ " + re.sub(r"\n(?=(.?))", lambda m: "\n> " if m[1] else "\n>", command)


def _run(command: str, expected: int, folder: Path) -> list[str]:
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "COLUMNS": "90",
        "TERM": "dumb",
    }
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode != expected:
        raise ExampleFailedError(
            f"$ {command}\n{done.stdout}ended with status {done.returncode}, expected {expected}"
        )
    # The name of the temporary folder differs in each run.
    printed = done.stdout.replace(f"{folder}{os.sep}", "")
    return [line.rstrip() for line in printed.splitlines()]


def _shorten(output: list[str], shown: list[str]) -> list[str]:
    if LEFT_OUT not in shown:
        return output
    above = shown.index(LEFT_OUT)
    below = len(shown) - above - 1
    if above + below >= len(output):
        return output
    return [*output[:above], LEFT_OUT, *output[len(output) - below :]]
