"""
Measure the cost of a study of 360 points of ResNet-8, and check that the table is unchanged after
kills.

    python benchmarks/explore_study.py resnet8_float.onnx --calibrate A.npz --inputs B.npz \
        --labels L.npz whole
    ... killed --kills 10        SIGKILL at random moments, and resumed
    ... cluster --every 60       a Dask cluster of two workers, one of which is killed so often

The table of `killed` and `cluster` is compared with that of `whole`, which must exist. Each command
starts with an empty cache. Processor time is the sum over all processes.
"""

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

STUDY = """
name = "resnet8"
[models.resnet8]
{files}
[options]
quantize = "int8"
prune = ["", "sparsity=0.1", "sparsity=0.2", "sparsity=0.3", "sparsity=0.5"]
[axes.precision]
int8 = {{}}
plain = {{ recipe = "none" }}
budget0 = {{ budget = 0.0 }}
budget30 = {{ budget = 0.3 }}
minmax = {{ observer = "minmax" }}
int8border = {{ io = "int8" }}
[targets.c]
board = ["pico", "due", "teensy_40", "nano_33_ble"]
[targets.arduino]
board = ["pico", "due", "teensy_40", "uno_r4_wifi"]
[targets.vta]
board = ["pynq", "ultra96", "zcu104", "de10nano"]
[objectives]
maximize = ["top_1"]
minimize = ["flash_bytes", "sram_bytes"]
"""

MAIN = "import sys; from ceras_ir.workbench.explore.tool import main; sys.exit(main(sys.argv[1:]))"

LONGEST_BEFORE_KILL = 45.0
"""The unit is seconds. The minimum is 3 seconds, in which a study has only started."""


def started(folder: Path, what: str, *more: str) -> subprocess.Popen[bytes]:
    """Start a study with a separate folder and a separate cache."""
    places = [f"--folder={folder / what}", f"--cache={folder / what}.cache"]
    command = [sys.executable, "-c", MAIN, str(folder / "study.toml"), *places, *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def ended(process: subprocess.Popen[bytes]) -> None:
    if process.wait():
        raise SystemExit(f"the study ended with status {process.returncode}")


def killed(folder: Path, kills: int, seed: int) -> list[int]:
    """Kill and resume a study. Return the number of points at each kill."""
    moments, found = random.Random(seed), list[int]()
    for _ in range(kills):
        process = started(folder, "killed", "--jobs=2")
        time.sleep(moments.uniform(3.0, LONGEST_BEFORE_KILL))
        process.send_signal(signal.SIGKILL)
        process.wait()
        found.append(sum(1 for _ in (folder / "killed" / "points").glob("*/report.html")))
    ended(started(folder, "killed", "--jobs=2"))
    return found


def on_cluster(folder: Path, every: float, seed: int) -> int:
    """Kill a worker after each interval of `every` seconds. Return the number of killed workers."""
    make: Any = import_module("distributed").LocalCluster
    victims, count = random.Random(seed), 0
    cluster = make(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster:
        process = started(folder, "cluster", f"--scheduler={cluster.scheduler_address}")
        stop = threading.Event()

        def kill() -> None:
            nonlocal count
            while not stop.wait(every):
                workers = [w.pid for w in cluster.workers.values() if w.pid]
                if workers:
                    os.kill(victims.choice(workers), signal.SIGKILL)
                    count += 1

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            ended(process)
        finally:
            stop.set()
            killer.join()
    return count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    for name in ("calibrate", "inputs", "labels"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path("explore-study"))
    parser.add_argument("what", choices=("whole", "killed", "cluster"))
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--every", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    folder, what = arguments.folder.resolve(), arguments.what
    for place in (folder / what, folder / f"{what}.cache"):
        shutil.rmtree(place, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    files = {k: getattr(arguments, k).resolve() for k in ("calibrate", "inputs", "labels")}
    lines = [f'{k} = "{v}"' for k, v in {"file": arguments.model.resolve(), **files}.items()]
    (folder / "study.toml").write_text(STUDY.format(files="\n".join(lines)))
    begun = time.monotonic()
    said = ""
    if what == "whole":
        ended(started(folder, what, "--jobs=2"))
    elif what == "killed":
        said = f"points at each kill: {killed(folder, arguments.kills, arguments.seed)}; "
    else:
        said = f"{on_cluster(folder, arguments.every, arguments.seed)} workers killed; "
    elapsed, used = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = (folder / what / "points.csv").read_text()
    said += f"{rows.count(chr(10)) - 1} points in {elapsed:.0f} s"
    if what == "whole":
        said += f", {used.ru_utime + used.ru_stime:.0f} s of processor time"
    else:
        same = rows == (folder / "whole" / "points.csv").read_text()
        said += f"; table {'the same' if same else 'DIFFERS'}"
    print(said)


if __name__ == "__main__":
    main()
