"""
Compare the outputs of the compiler with those of an earlier revision: compile a list of networks
for all targets, and compare hashes of the files with the hashes in `output_hashes.txt`.

    python test/output_hashes.py [--check] [--write] [--networks NAME,...] [--targets NAME,...]
                                 [--jobs N] [--keep DIR]

The file has a line for each network, build and kind of output. `hashed_artefacts.py` defines the
kinds and the normalization of files, `hashed_networks.py` the networks and builds. A refusal has a
line with the exit status and the message. The default is `--check`: print differences, and exit
with status 1 if there are any. `--write` rewrites the lines of the selected networks and targets.
`--keep DIR` stores the normalized files: run the script with it in two trees, then compare both
folders with `diff -r`.

Hashes depend on the version of numpy, because calibration computes in float.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import hashed_artefacts
from hashed_networks import SHARED, Network, all_networks

from ceras_ir.driver.compile import main as compile_main

HASHES = Path(__file__).with_suffix(".txt")
MESSAGE_CHARACTERS = 160

ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512F AVX512_SKX AVX512_CLX AVX512_ICL AVX512_SPR",
}
"""Calibration adds in the same order on all x86-64 machines with AVX2, without AVX-512."""

Key = tuple[str, str, str]
"""Network, build and kind of output."""


def hashes(
    network: Network, targets: Sequence[str] = (), keep: Path | None = None
) -> dict[Key, str]:
    """Compute the hashes of the outputs of a network for all builds or the given targets."""
    found: dict[Key, str] = {}
    with tempfile.TemporaryDirectory(prefix="ceras-hashes-") as name:
        folder = Path(name)
        made = network.make()
        data = made if isinstance(made, bytes) else made.SerializeToString(deterministic=True)
        model = folder / f"{network.name}.onnx"
        model.write_bytes(data)
        options = list(network.options)
        if network.calibration is not None:
            samples = network.calibration(onnx.load_model_from_string(data))
            np.savez(folder / "calibration.npz", allow_pickle=False, **samples)
            options += ["--calibrate", str(folder / "calibration.npz")]
        for build, words in network.builds.items():
            if not chosen(build, targets):
                continue
            given = options if "none" not in words[:4] else list(network.options)
            output = folder / build.replace(":", "-")
            files, refusal = compiled(model, [*words, *given], output)
            for kind, contents in files.items():
                found[network.name, build, kind] = hashed_artefacts.hash_of(contents)
                if keep is not None:
                    store(keep / network.name / build.replace(":", "-"), contents)
            if refusal:
                found[network.name, build, "refused"] = refusal.replace(f"{folder}/", "")
    # The command keeps all objects out of the garbage collector, for a process that ends soon.
    gc.unfreeze()
    return found


def chosen(build: str, targets: Sequence[str]) -> bool:
    """Return whether a build, or the target at the start of its name, is among `targets`."""
    return not targets or build in targets or build.split(":")[0].split("-")[0] in targets


def compiled(
    model: Path, options: Sequence[str], output: Path
) -> tuple[Mapping[str, Mapping[str, bytes]], str]:
    """Return the artefacts by kind, or the reason of a refusal."""
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        status = compile_main([str(model), *options, "-o", str(output), "--save-temps"])
    if status == 0:
        return hashed_artefacts.artefacts(output), ""
    lines = [line for line in said.getvalue().splitlines() if "error:" in line]
    message = " ".join((lines or said.getvalue().splitlines())[:1]).replace(f"{model.parent}/", "")
    digest = sha256(message.encode()).hexdigest()[: hashed_artefacts.HASH_DIGITS]
    return {}, f"{digest} status {status}: {message[:MESSAGE_CHARACTERS]}"


def store(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def read(path: Path) -> dict[Key, str]:
    found: dict[Key, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        network, build, kind, value = line.split(maxsplit=3)
        found[network, build, kind] = value
    return found


def write(path: Path, found: Mapping[Key, str]) -> None:
    lines = [f"{network} {build} {kind} {found[network, build, kind]}\n"
             for network, build, kind in sorted(found)]  # fmt: skip
    path.write_text("".join(lines), encoding="utf-8")


def differences(before: Mapping[Key, str], now: Mapping[Key, str]) -> Iterator[str]:
    """Yield a line for each output that was changed, added or removed."""
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key, "absent"), now.get(key, "absent")
        if old != new:
            yield f"{' '.join(key)}: {old} before, {new} now"


def _task(task: tuple[str, Sequence[str], Path | None]) -> tuple[str, float, dict[Key, str]]:
    name, targets, keep = task
    begun = time.process_time()
    found = hashes(all_networks()[name], targets, keep)
    return name, time.process_time() - begun, found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare; this is the default")
    parser.add_argument(
        "--write", action="store_true", help="rewrite the lines of the selected networks"
    )
    parser.add_argument("--networks", default="", metavar="NAME,...")
    parser.add_argument("--targets", default="", metavar="NAME,...", help="targets or builds")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="store the normalized files")
    parser.add_argument("--times", action="store_true", help="print seconds for each network")
    arguments = parser.parse_args()
    known = all_networks()
    names = [name for name in str(arguments.networks).split(",") if name]
    targets = [name for name in str(arguments.targets).split(",") if name]
    if wrong := [name for name in names if name not in known]:
        parser.error(f"no network {', '.join(wrong)}; there are {', '.join(known)}")
    builds = {build for name in names or known for build in known[name].builds}
    if wrong := [name for name in targets if not any(chosen(b, [name]) for b in builds)]:
        parser.error(f"no build {', '.join(wrong)}; there are {', '.join(sorted(builds))}")
    tasks = [(name, targets, arguments.keep) for name in names or known]
    begun = time.monotonic()
    now: dict[Key, str] = {}
    os.environ.update(ENVIRONMENT)
    # Not forked, because numpy reads the environment when it is imported.
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        for name, seconds, found in pool.map(_task, tasks):
            if arguments.times:
                print(f"{seconds:6.1f} s {name}", flush=True)
            now |= found
    before = read(HASHES)
    present = {name for name, _, _ in tasks}
    unknown = {key[0] for key in before} - known.keys()
    if not names and SHARED.is_dir():
        # They are no longer in the list of networks.
        present |= unknown
    elif not names and unknown:
        print(f"not compared, because ../shared is absent: {', '.join(sorted(unknown))}")
    compared = {
        key: value for key, value in before.items() if key[0] in present and chosen(key[1], targets)
    }
    changed = list(differences(compared, now))
    print("\n".join([*changed, ""]), end="")
    print(
        f"{len(now)} outputs of {len(tasks)} networks in {time.monotonic() - begun:.0f} s, "
        f"{len(changed)} differ"
    )
    if arguments.write:
        write(HASHES, {k: v for k, v in before.items() if k not in compared} | now)
        return 0
    return 1 if changed else 0


if __name__ == "__main__":
    raise SystemExit(main())
