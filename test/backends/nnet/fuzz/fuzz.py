"""
Fuzz the loader and the executor of the nnet engine with libFuzzer and its sanitizers.

    python test/backends/nnet/fuzz/fuzz.py --seconds 600

The fuzzer starts from `corpus/`, and leaves a minimal set of inputs with equal coverage there. It
needs clang.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ceras_ir.backends.nnet.engine import write_sources

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
COMPILER = "clang++"
FLAGS = (
    "-std=c++17", "-O1", "-g", "-ffp-contract=off",
    "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all",
)  # fmt: skip
LIMITS = ("-max_len=32768", "-rss_limit_mb=4096", "-malloc_limit_mb=4096", "-timeout=20")
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1"}
"""A refusal because of insufficient memory is not a finding."""


def has_compiler() -> bool:
    """Return whether clang with libFuzzer is installed."""
    return shutil.which(COMPILER) is not None


def build(folder: Path) -> Path:
    """Build the fuzzer as a program in `folder`."""
    write_sources(engine := folder / "engine")
    sources = [p for p in sorted(engine.glob("*.cpp")) if p.name != "main.cpp"]
    program = folder / "fuzz_nnet"
    command = [COMPILER, *FLAGS, f"-I{engine}", str(HERE / "load_and_run.cpp")]
    subprocess.run([*command, *map(str, sources), "-o", str(program)], check=True)
    return program


def fuzz(program: Path, folder: Path, seconds: int, seed: int = 1) -> str:
    """Return the log of the fuzzer. `folder` gets new inputs, and an input that fails raises."""
    command = [str(program), str(folder), str(CORPUS), f"-max_total_time={seconds}"]
    command += [*LIMITS, f"-seed={seed}", f"-artifact_prefix={folder}/", "-print_final_stats=1"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    if done.returncode:
        raise AssertionError(f"the fuzzer found something in {folder}:\n{done.stderr[-6000:]}")
    return done.stderr


def keep_fewest(program: Path, found: Path) -> None:
    """Reduce the corpus to a minimal set of inputs with equal coverage."""
    with tempfile.TemporaryDirectory() as name:
        fewest = Path(name)
        merge = [str(program), "-set_cover_merge=1", *LIMITS, name, str(CORPUS), str(found)]
        subprocess.run(merge, check=True, capture_output=True, env=ENVIRONMENT)
        wanted = {path.read_bytes(): path.name for path in sorted(fewest.iterdir())}
        # The merge may name the same bytes anew.
        for path in sorted(CORPUS.iterdir()):
            if wanted.pop(path.read_bytes(), None) is None:
                path.unlink()
        for data, own in wanted.items():
            (CORPUS / own).write_bytes(data)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(argv)
    CORPUS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        found = folder / "found"
        found.mkdir()
        log = fuzz(program, found, arguments.seconds, arguments.seed)
        keep_fewest(program, found)
    print("\n".join(line for line in log.splitlines() if line.startswith("stat::")))
    print(f"corpus: {len(list(CORPUS.iterdir()))} files")


if __name__ == "__main__":
    main()
