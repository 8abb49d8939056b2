"""
Seed faults in the compiler, one at a time, and print the test that detects each.

    python test/faults/seeded.py [--only TEXT] [--part 1/4]

Each entry of a table in this folder (`*.toml`) changes one line of a copy of the package, and names
the test that must fail then, or a list of tests. If the code then runs forever, the entry has
`hangs = true`, and only then a time limit is a detection. The exit status is 1 if no test detects a
fault, if a test fails without a fault, or if the text of an entry does not occur exactly a single
time in the file. In contrast, `test/mutants` changes the input of the compiler; this program
changes the compiler.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "ceras_ir"
LIMIT_SECONDS, HANG_SECONDS = 600, 120
"""The limits for the tests of a fault, and of a fault that makes the code run forever."""
TIME_LIMIT = "the time limit"


@dataclass(frozen=True)
class Fault:
    """A change of a file of the package, and the tests that must fail then."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    """The tests of pytest by their identifiers, and of lit by their files."""
    hangs: bool = False
    """Whether the changed code runs forever."""

    @property
    def count(self) -> int:
        """Count `old` in the unchanged file; the entry is out of date unless this is 1."""
        path = PACKAGE / self.file
        return path.read_text(encoding="utf-8").count(self.old) if path.is_file() else 0


@dataclass(frozen=True)
class Outcome:
    """The result of the tests of a fault."""

    caught_by: str
    """The first test that failed, or `TIME_LIMIT`; empty if all passed."""
    seconds: float
    output: str


def faults() -> list[Fault]:
    """Return the faults in the order of the files."""
    tables = [tomllib.loads(p.read_text(encoding="utf-8")) for p in sorted(HERE.glob("*.toml"))]
    return [
        Fault(file, entry["old"], entry["new"], _listed(entry["tests"]), entry.get("hangs", False))
        for table in tables
        for file, entries in table.items()
        for entry in entries
    ]


def _listed(tests: str | list[str]) -> tuple[str, ...]:
    return (tests,) if isinstance(tests, str) else tuple(tests)


@contextmanager
def package_copy() -> Generator[Path]:
    """Create a folder with a copy of the package."""
    with tempfile.TemporaryDirectory(prefix="ceras-faults-") as folder:
        # Copy compiled files and times too, so that only changed files are compiled again.
        shutil.copytree(PACKAGE, Path(folder) / PACKAGE.name)
        yield Path(folder)


def run_with(fault: Fault, folder: Path) -> Outcome:
    """Run the tests of `fault` on the copy in `folder`, which is changed only for this time."""
    path = folder / PACKAGE.name / fault.file
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(before.replace(fault.old.encode(), fault.new.encode()))
    try:
        return run_tests(fault.tests, folder, HANG_SECONDS if fault.hangs else LIMIT_SECONDS)
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def run_tests(tests: Sequence[str], folder: Path, limit: float = LIMIT_SECONDS) -> Outcome:
    """Run tests on the package in `folder` until the first fails."""
    start, output = time.monotonic(), ""
    of_lit = [test for test in tests if not test.split("::")[0].endswith(".py")]
    of_pytest = [test for test in tests if test not in of_lit]
    python, lit = sys.executable, Path(sys.executable).parent / "lit"
    options = ["-q", "-x", "--tb=line", "-o", f"cache_dir={folder / 'cache'}"]
    commands: list[list[str | Path]] = []
    if of_pytest:
        commands.append([python, "-m", "pytest", *options, *of_pytest])
    if of_lit:
        # A crash leaves a reproducer in the current folder.
        commands.append([lit, "-v", f"-Dexec={folder / 'lit'}", *of_lit])
    for command in commands:
        status, said = _finish(command, folder, limit)
        output += said
        failed = re.search(r"^(?:FAILED|ERROR|FAIL:|TIMEOUT:) (.*?)(?: - | \(\d+ of|$)", said, re.M)
        if status == 0:
            continue
        if status is None:
            caught_by = TIME_LIMIT
        elif status < 0:
            caught_by = f"a crash of the tests, signal {-status}"
        elif status == 1 and failed is not None:
            caught_by = failed[1].replace("ceras_ir :: ", "test/lit/")
        else:
            raise SystemExit(f"status {status} of {' '.join(map(str, command))}\n{said}")
        return Outcome(caught_by, time.monotonic() - start, output)
    return Outcome("", time.monotonic() - start, output)


def _finish(command: Sequence[str | Path], folder: Path, limit: float) -> tuple[int | None, str]:
    """Return the status, None above the limit, and the output; kill all processes that remain."""
    paths = [str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        # Otherwise Python would import from the current folder before the copy.
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=limit)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_detected(fault: Fault, outcome: Outcome) -> bool:
    """Return whether a test failed; a time limit counts only if the fault declares it."""
    return bool(outcome.caught_by) and (fault.hangs or outcome.caught_by != TIME_LIMIT)


def main() -> int:
    parser = argparse.ArgumentParser(description="Which test catches which fault of the compiler.")
    parser.add_argument("--only", default="", help="faults whose file or text contains this")
    parser.add_argument(
        "--part", default="1/1", metavar="I/N", help="every N-th fault from the I-th"
    )
    arguments = parser.parse_args()
    only: str = arguments.only
    part, parts = map(int, arguments.part.split("/"))
    chosen = [f for f in faults() if only in f.file or only in f.old or only in f.new]
    chosen = chosen[part - 1 :: parts]
    if stale := [fault for fault in chosen if fault.count != 1]:
        for fault in stale:
            print(f"{fault.file} has {fault.count} of: {fault.old}")
        return 1
    survived, start = 0, time.monotonic()
    with package_copy() as folder:
        tests = dict.fromkeys(test for fault in chosen for test in fault.tests)
        good = run_tests(list(tests), folder, LIMIT_SECONDS * len(tests))
        if good.caught_by:
            print(f"{good.output}\n{good.caught_by} fails without a fault")
            return 1
        for fault in chosen:
            outcome = run_with(fault, folder)
            detected = is_detected(fault, outcome)
            survived += not detected
            print(f"{fault.file}: {fault.old.strip()}\n  -> {fault.new.strip()}")
            by = outcome.caught_by or "no test"
            by += "" if detected else f", NOT DETECTED by {' '.join(fault.tests)}"
            print(f"  caught by {by} in {outcome.seconds:.1f} s", flush=True)
    seconds = time.monotonic() - start
    print(f"{len(chosen) - survived} of {len(chosen)} faults caught in {seconds:.0f} s")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
