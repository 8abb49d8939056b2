"""
Compare generated C of random networks on all compilers and processors that are installed.

    python test/backends/c/everywhere.py [--count 50] [--first 0] [--only TEXT]

Four kinds of networks alternate: integers, integers with float outputs, Q/DQ or QLinear networks of
`fuzz_as_written.py` with float layers, and floats. Each build of the first three kinds computes the
bits of the interpreter. In float, portable loops have equal bits in all builds. Portable loops and
tiles for vectors are within FLOAT_BOUND of the interpreter. Warnings are errors, and two builds
have sanitizers. Failures are printed, and the exit status is 1.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import numpy as np
from cross import RISCV
from firmware import write_files
from frontends.fuzz_as_written import GENERATOR, generate
from onnx_models import Array
from onnx_models import random_inputs as random_inputs_of
from onnx_random import random_network

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.target import CTarget
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import TensorInfo, network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, Quantize, all_stages, run_stages
from ceras_ir.support.diagnostics import UnsupportedError

FLOAT_BOUND = 1e-5
"""
The relative error of an output for float layers with another order of sums than the interpreter. It
grows with the length of sums and with cancellation: the maximum of 13 networks was 2.3e-6, in a
product with two results that cancel.
"""

STRICT = ("-Wall", "-Wextra", "-Werror")
SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@dataclass(frozen=True)
class Build:
    """A compiler with its flags, and the command that runs programs."""

    compiler: str
    flags: tuple[str, ...]
    runner: tuple[str, ...] = ()
    portable: bool = True
    """Whether float layers are portable loops. Vectors have another order of sums."""

    @property
    def missing(self) -> str:
        """The first tool that is not installed, or an empty string."""
        tools = (self.compiler, *self.runner[:1])
        return next((tool for tool in tools if shutil.which(tool) is None), "")


BUILDS: dict[str, Build] = {
    "gcc": Build("gcc", ("-std=c99", "-O2")),
    "gcc-sanitized": Build("gcc", ("-std=c99", "-O1", *SANITIZERS)),
    "clang-sanitized": Build("clang", ("-std=c99", "-O1", *SANITIZERS)),
    "clang": Build("clang", ("-std=gnu11", "-O3")),
    "i686": Build("i686-linux-gnu-gcc", ("-std=gnu99", "-O2", "-static", "-msse2", "-mfpmath=sse")),
    "aarch64": Build(
        "aarch64-linux-gnu-gcc", ("-std=gnu99", "-O2", "-static"), ("qemu-aarch64",), portable=False
    ),
    "aarch64-portable": Build(
        "aarch64-linux-gnu-gcc",
        ("-std=gnu99", "-O2", "-static", "-DMODEL_NEON=0"),
        ("qemu-aarch64",),
    ),
    "armv7": Build("arm-linux-gnueabihf-gcc", ("-std=gnu99", "-O2", "-static"), ("qemu-arm",)),
    "riscv64": Build("riscv64-linux-gnu-gcc", ("-std=gnu99", "-O2", "-static"), ("qemu-riscv64",)),
    "riscv64-vectors": Build(
        RISCV.compiler[0],
        (*RISCV.compiler[1:], *RISCV.builds["rvv"], "-std=gnu99", "-O2", "-static"),
        RISCV.emulator,
        portable=False,
    ),
}
"""GNU dialects allow contraction of products and sums, unless the code forbids it."""


@dataclass(frozen=True)
class Network:
    """The C of a network in a folder, an input, and the outputs of the interpreter."""

    folder: Path
    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    sample: Mapping[str, Array]
    expected: Mapping[str, Array]
    is_float: bool


def make(seed: int, folder: Path) -> Network | None:
    """Return the network of a seed, unless it is refused."""
    kind = seed % 4
    if kind == 2:
        # Of seeds 4 n + 2: QLinear operations, and Q/DQ in 8 and in 16 bits, alternate.
        at = 1_000_000 + 2 * seed + seed // 4 % 4
        written = generate(at, folder) if GENERATOR.exists() else None
        if written is None:
            return None
        model, sample = written.model, written.inputs
    else:
        model = random_network(seed, steps=3)
        sample = random_inputs_of(model, seed)
    module = import_model(model)
    quantize: dict[int, Quantize] = {2: "auto", 3: "none"}
    options = BuildOptions(
        CTarget(), quantize=quantize.get(kind, "int8"), io="int8" if kind == 0 else "model"
    )
    try:
        run_stages(load_context(), module, all_stages(options.resolved(module)))
        write_files(emit(module, COptions()), folder)
    except UnsupportedError:
        return None
    main = main_function(module)
    inputs = network_inputs(main)
    # Use the full range at an int8 input.
    drawn = np.random.default_rng(seed)
    stored = {
        info.name: sample[info.name]
        if info.dtype == sample[info.name].dtype
        else drawn.integers(-128, 128, info.shape).astype(info.dtype)
        for info in inputs
    }
    return Network(folder, inputs, network_outputs(main), stored, run(module, stored), kind == 3)


def outputs_of(network: Network, build: Build) -> dict[str, Array]:
    """Compile and run; raise a `RuntimeError` with the output of a failing tool."""
    folder, program = network.folder, network.folder / "program"
    sources = [folder / name for name in ("model.c", "model_weights.c", "main.c")]
    command = [build.compiler, *STRICT, *build.flags, *map(str, sources), f"-I{folder}"]
    _done([*command, "-o", str(program), "-lm"])
    arrays = [np.asarray(network.sample[t.name], order="C").astype(t.dtype) for t in network.inputs]
    (folder / "in.bin").write_bytes(b"".join(array.tobytes() for array in arrays))
    ends = [str(folder / "in.bin"), str(folder / "out.bin")]
    _done([*build.runner, str(program), *ends])
    data, at, results = (folder / "out.bin").read_bytes(), 0, dict[str, Array]()
    for info in network.outputs:
        results[info.name] = np.frombuffer(data, info.dtype, info.size, at).reshape(info.shape)
        at += info.nbytes
    assert at == len(data)
    return results


def _done(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ends with {done.returncode}: {done.stderr[-800:]}")


def difference(
    network: Network, build: Build, got: Mapping[str, Array], portable: Mapping[str, Array]
) -> tuple[str, float]:
    """Return the difference, possibly empty, and the relative error of floats."""
    furthest = 0.0
    for name, expected in network.expected.items():
        actual = got[name]
        if not network.is_float:
            if actual.tobytes() != expected.tobytes():
                return f"output '{name}' has other bits than the interpreter", furthest
            continue
        real = expected.astype(np.float64)
        off = np.abs(actual.astype(np.float64) - real).max() / max(np.abs(real).max(), 1e-30)
        furthest = max(furthest, float(off))
        if build.portable and actual.tobytes() != portable[name].tobytes():
            return f"output '{name}' has other bits than portable loops elsewhere", furthest
        if off > FLOAT_BOUND:
            return f"output '{name}' is off by {off:.2g} of its range", furthest
    return "", furthest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="", help="builds with this text in the name")
    arguments = parser.parse_args()
    builds = {name: build for name, build in BUILDS.items() if arguments.only in name}
    for name, build in list(builds.items()):
        if build.missing:
            print(f"{name}: left out, needs {build.missing}")
            del builds[name]
    counts, wrong, start = Counter[str](), Counter[str](), monotonic()
    furthest, seed = dict.fromkeys(builds, 0.0), arguments.first
    kinds = ("integers", "integers and floats", "Q/DQ or QLinear", "float")
    while counts.total() < arguments.count:
        with tempfile.TemporaryDirectory(prefix="ceras-everywhere-") as folder:
            network = make(seed, Path(folder))
            seed += 1
            if network is None:
                continue
            counts[kinds[(seed - 1) % 4]] += 1
            portable: Mapping[str, Array] = {}
            for name, build in builds.items():
                try:
                    got = outputs_of(network, build)
                    portable = portable or got
                    said, off = difference(network, build, got, portable)
                    furthest[name] = max(furthest[name], off)
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    said = str(error)
                if said:
                    wrong[name] += 1
                    print(f"seed {seed - 1}, {name}: {said}", flush=True)
        if counts.total() % 10 == 0:
            print(f"{counts.total()} networks", file=sys.stderr, flush=True)
    total = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    print(f"{counts.total()} networks ({total}), seeds {arguments.first} to {seed - 1}")
    for name in builds:
        print(
            f"{name}: {wrong[name]} wrong; float off by at most {furthest[name]:.1e} of its range"
        )
    print(f"{wrong.total()} wrong in {monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
