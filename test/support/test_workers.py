"""Test calls in local processes: order, errors, and workers that terminate."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from worker_calls import die_always, die_once, fail, square

from ceras_ir.support.workers import LocalProcesses, ThisProcess, WorkerLost, in_order


@pytest.fixture(scope="module")
def processes() -> Iterator[LocalProcesses]:
    workers = LocalProcesses(2)
    yield workers
    workers.close()


def test_results_in_the_order_of_calls():
    results = [(2, "c"), (0, "a"), (1, "b")]
    assert list(in_order(results)) == ["a", "b", "c"]


def test_this_process_takes_one_argument_at_a_time():
    taken: list[int] = []

    def arguments() -> Iterator[int]:
        for number in range(5):
            taken.append(number)
            yield number

    assert list(islice(ThisProcess().run(square, arguments()), 2)) == [(0, 0), (1, 1)]
    assert taken == [0, 1]


@pytest.mark.slow
def test_processes_run_all_calls(processes: LocalProcesses):
    assert list(in_order(processes.run(square, range(20)))) == [n * n for n in range(20)]


@pytest.mark.slow
def test_an_error_in_a_call_is_raised(processes: LocalProcesses):
    with pytest.raises(ValueError, match="no 0"):
        list(processes.run(fail, [0]))


@pytest.mark.slow
def test_the_call_of_a_worker_that_died_runs_again(processes: LocalProcesses, tmp_path: Path):
    arguments = [(number, str(tmp_path / "marker")) for number in range(8)]
    assert list(in_order(processes.run(die_once, arguments))) == list(range(8))


@pytest.mark.slow
def test_a_call_that_kills_every_worker_fails_alone(processes: LocalProcesses):
    results = dict(processes.run(die_always, range(6)))
    assert isinstance(results.pop(2), WorkerLost)
    assert results == {n: n for n in (0, 1, 3, 4, 5)}


PARENT = """
import os
from ceras_ir.support.workers import LocalProcesses
if __name__ == "__main__":
    workers = LocalProcesses(1)
    for _, result in workers.run(os.getenv, ["HOME"]):
        print(*[p for p in os.popen(f"ps -o pid= --ppid {os.getpid()}").read().split()], flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    # The workers would keep the pipe open, so the end of the output is not awaited.
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        children = [int(number) for number in parent.stdout.readline().split()]
    assert children
    end = time.monotonic() + 20
    try:
        while left := [number for number in children if _runs(number)]:
            assert time.monotonic() < end, f"{left} outlive their parent"
            time.sleep(0.1)
    finally:
        for number in children:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def _runs(process: int) -> bool:
    # A zombie has ended; another process has to collect the status.
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


OWNED = """
import sys
print("owned", file=sys.stderr)
"""

CALLS = """
import sys
sys.path.remove("")
from ceras_ir.support.workers import LocalProcesses, parallel
import os
if __name__ == "__main__":
    workers = LocalProcesses(2)
    print([result for _, result in workers.run(os.getenv, ["PYTHONSAFEPATH"] * 2)])
    workers.close()
    print(parallel(abs, [(-1,), (2,)], 2))
"""


@pytest.mark.slow
def test_workers_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    for name in ("struct", "multiprocessing", "joblib", "random", "encodings", "numpy"):
        (tmp_path / f"{name}.py").write_text(OWNED)
    done = subprocess.run(
        [sys.executable, "-c", CALLS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[None, None]\n[1, 2]\n" and "owned" not in done.stderr, done.stderr
