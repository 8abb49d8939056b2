"""Compile the digits network for all targets, run it on the held-out images, and compare.

The demo calls the public tools (ceras-compile, ceras-run, ceras-verify) as a user would; this
program only counts. If a step fails, the demo exits with the status of that tool.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
MODEL = HERE / "digits.onnx"
IMAGES = HERE / "digits_test.npz"
LABELS = HERE / "digits_labels.npz"
CALIBRATION = HERE / "digits_calibration.npz"

TARGETS: Mapping[str, tuple[str, ...]] = {"c": (), "nnet": (), "vta": ("--board", "pynq")}
"""The targets, each with the options that it needs."""

NOT_ARTEFACTS = frozenset({"manifest.json", "report.json"})
"""Files of a compiled directory that describe the artefacts and are not deployed."""


class StepFailed(Exception):
    """The error that a tool exited with a status other than 0; the tool has printed the reason."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Row(NamedTuple):
    """A line of the table: the network, its answers, and the memory that it needs."""

    name: str
    classes: npt.NDArray[np.int64]
    totals: Mapping[str, float]
    files: int | None


class Tools:
    """Run the command-line tools of this installation, and print each command before it starts."""

    def __init__(self, directory: Path, console: Console) -> None:
        self.directory = directory
        self.console = console

    def run(self, tool: str, *arguments: str | Path, show: bool = False) -> None:
        """Run `tool`; diagnostics go to stderr, and the result is printed only with `show`."""
        words = [shorter(str(argument)) for argument in arguments]
        self.announce(tool, words)
        # The tool writes to the same terminal or pipe: flush the earlier output first.
        sys.stdout.flush()
        try:
            done = subprocess.run(
                [self.directory / tool, *words],
                stdout=None if show else subprocess.PIPE,
                check=False,
            )
        except FileNotFoundError:
            print(f"error: no {tool} in {self.directory}; run `make demo`", file=sys.stderr)
            raise StepFailed(2) from None
        if done.returncode != 0:
            print(f"error: {tool} ended with status {done.returncode}", file=sys.stderr)
            raise StepFailed(done.returncode)

    def announce(self, tool: str, words: list[str]) -> None:
        self.console.print(
            f"$ {shlex.join([tool, *words])}", style="dim", markup=False, soft_wrap=True
        )


def shorter(word: str) -> str:
    """Shorten `word` to a relative path if it is a path below the working directory."""
    path = Path(word)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return word


def classes(outputs: Path) -> npt.NDArray[np.int64]:
    """Return the most probable digit of each image in a file written by ceras-run."""
    with np.load(outputs) as arrays:
        return np.argmax(arrays["probabilities"], axis=1)


def run_float(tools: Tools, output: Path) -> Row:
    """Run the original model in the interpreter."""
    answers = output / "float.npz"
    tools.run("ceras-run", MODEL, "--inputs", IMAGES, "--outputs", answers, "--quantize", "none")
    return Row("float", classes(answers), {}, None)


def run_target(tools: Tools, target: str, output: Path) -> Row:
    """Compile the model to int8 for `target`, and run it from the compiled directory."""
    directory, answers = output / target, output / f"{target}.npz"
    tools.run(
        "ceras-compile",
        MODEL,
        *("-o", directory, "--target", target, *TARGETS[target]),
        *("--quantize", "int8", "--calibrate", CALIBRATION),
    )
    tools.run("ceras-run", directory, "--inputs", IMAGES, "--outputs", answers)
    report = json.loads((directory / "report.json").read_text(encoding="utf-8"))
    return Row(f"int8 {target}", classes(answers), report["totals"], artefact_bytes(directory))


def artefact_bytes(directory: Path) -> int:
    """Sum the sizes of all files that are deployed from a compiled directory."""
    return sum(
        path.stat().st_size
        for path in directory.rglob("*")
        if path.is_file() and path.name not in NOT_ARTEFACTS
    )


def agreement(rows: list[Row]) -> str:
    """Describe, in a sentence, the share of images with equal answers for each pair of rows."""
    alike = np.all([row.classes == rows[0].classes for row in rows], axis=0)
    names = ", ".join(row.name for row in rows)
    return f"{names} agree on {int(alike.sum())} of {alike.size} images"


def table(rows: list[Row], labels: npt.NDArray[np.uint8]) -> Table:
    """Build a table of accuracy, agreement with the first row (float), and sizes."""
    result = Table(title=f"digits: {labels.size} held-out images")
    result.add_column("network")
    for heading in ("accuracy", "as float", "weights", "memory", "artefacts"):
        result.add_column(heading, justify="right")
    for row in rows:
        result.add_row(
            row.name,
            f"{np.mean(row.classes == labels):.2%}",
            f"{np.mean(row.classes == rows[0].classes):.2%}",
            size(row.totals.get("weight_bytes")),
            size(row.totals.get("sram_bytes")),
            size(row.files),
        )
    return result


def size(count: float | None) -> str:
    return "-" if count is None else f"{int(count):,} B"


def demo(tools: Tools, output: Path) -> None:
    """Run all steps; raise StepFailed at the first step that fails."""
    output.mkdir(parents=True, exist_ok=True)
    with np.load(LABELS) as arrays:
        labels: npt.NDArray[np.uint8] = arrays["labels"]
    exact = run_float(tools, output)
    compiled = [run_target(tools, target, output) for target in TARGETS]
    tools.console.print(table([exact, *compiled], labels))
    tools.console.print(agreement(compiled), highlight=False)
    tools.run(
        "ceras-verify",
        MODEL,
        *("--inputs", IMAGES, "--calibrate", CALIBRATION, "--targets", ",".join(TARGETS)),
        show=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        default=Path("build/demo"),
        help="where compiled networks and answers go (default: build/demo)",
    )
    options = parser.parse_args()
    try:
        # Not resolved: in a virtual environment the tools are next to the link, not next to its
        # target.
        demo(Tools(Path(sys.executable).parent, Console()), options.output)
    except StepFailed as failure:
        return failure.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
