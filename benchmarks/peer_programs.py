"""
Prepare the programs that `peers.py` compares: the C of a network, and other runtimes.

All files are in a folder. A file is generated again if the network, the compiler, the versions of
a runtime, or the conversion changed.
"""

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
SAMPLES = 8
"""The number of calibration samples of all runtimes."""
CONVERSION_LIMIT_S = 300
NO_TILES = ("-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16")

PEERS = {
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "mnn": "MNN",
    "ncnn": "ncnn",
    "litert": "LiteRT",
}
REFERENCE = "reference"

Talk = Callable[[str], dict[str, Any]]


class Failed(Exception):
    """The reason why a program cannot run a network."""


@dataclass(frozen=True)
class Row:
    """A network: the builder, the quantization in other runtimes, and the options of the C."""

    name: str
    build: Callable[[Path], object]
    method: str = "static"
    """The METHOD of `peer_conversions.py`."""
    states: tuple[tuple[str, str], ...] = ()
    """Pairs of a state and the output with the next value."""
    kinds: tuple[str, ...] = ("float", "int8")
    is_quantized: bool = False
    """Whether the C is compiled from the int8 model of ONNX Runtime."""


@dataclass
class Cell:
    """A program with a network: the report of the process, and times in milliseconds."""

    program: str
    reason: str = ""
    form: str = ""
    details: str = ""
    decibels: float = math.nan
    times: list[float] = field(default_factory=list[float])


@dataclass(frozen=True)
class Place:
    """The folder of a network, and the reference output."""

    folder: Path
    reference: NDArray[np.float64]

    @property
    def model(self) -> Path:
        return self.folder / "model.onnx"

    @property
    def data(self) -> Path:
        return self.folder / "data.npz"


def run(*words: str | Path, **extra: str) -> str:
    """Return the output of a command; raise `Failed` with the last line of the error."""
    env = os.environ | extra
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Failed(f"{Path(words[0]).name}: {lines[-1] if lines else done.returncode}")
    return done.stdout


def remade(mark: Path, key: object, make: Callable[[], object]) -> Any:
    """Return the value of `make`, or the value in the file `mark` if the keys are equal."""
    digest = hashlib.sha256(repr(key).encode()).hexdigest()
    if mark.exists() and (known := json.loads(mark.read_text()))["key"] == digest:
        return known["value"]
    value = make()
    mark.write_text(json.dumps({"key": digest, "value": value}))
    return value


def compiler_digest() -> str:
    """Return a digest of the sources of the compiler."""
    digest = hashlib.sha256()
    for path in sorted((HERE.parent / "ceras_ir").rglob("*")):
        if path.suffix in (".py", ".c", ".h", ".toml"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


class Programs:
    """Prepares and starts programs in a folder."""

    def __init__(
        self,
        folder: Path,
        pythons: dict[str, Path | None],
        threads: int,
        isa: str,
        board: str | None = None,
        budget: str | None = None,
    ):
        self.folder, self.pythons, self.threads, self.isa = folder, pythons, threads, isa
        self.board = [] if board is None else ["--board", board]
        self.budget = [] if budget is None else ["--budget", budget]
        self.compiler = compiler_digest()
        self._versions: dict[str, str] = {}

    def ask(self, program: str, *words: str | Path) -> dict[str, Any]:
        """Return the answer of `peer_process.py`, in the environment of a runtime."""
        python = self.pythons[program]
        if python is None:
            return {"refused": "no environment is given"}
        command = [python, HERE / "peer_process.py", *words]
        try:
            # Converters write temporary files into the current folder.
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=CONVERSION_LIMIT_S, check=False,
                cwd=self.folder,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"refused": f"no answer in {CONVERSION_LIMIT_S} s", "is_late": True}
        found = re.findall(r"^@(.*)$", done.stdout, re.MULTILINE)
        return json.loads(found[-1]) if found else {"refused": f"exit status {done.returncode}"}

    def versions(self, peer: str) -> str:
        """Return the packages of a runtime with versions, or "" if they are not installed."""
        if peer not in self._versions:
            answer = self.ask(peer, "versions", peer)
            self._versions[peer] = str(answer.get("versions", ""))
        return self._versions[peer]

    def place(self, row: Row) -> Place:
        """Write model, samples and reference output of a network."""
        with tempfile.TemporaryDirectory() as name:
            row.build(made := Path(name) / "model.onnx")
            digest = hashlib.sha256(made.read_bytes()).hexdigest()[:8]
            folder = self.folder / f"{re.sub('[^a-z0-9]+', '-', row.name.lower())}-{digest}"
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(made, folder)
        model = onnx.ModelProto.FromString((folder / "model.onnx").read_bytes())
        rng = np.random.default_rng(7)
        samples: dict[str, NDArray[np.float32]] = {}
        states = {name for name, _ in row.states}
        for value in model.graph.input:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            drawn = rng.standard_normal((SAMPLES, *shape))
            samples[value.name] = drawn.astype(np.float32)
            if value.name in states:
                samples[value.name][0] = 0  # As the states of the C in its first run.
        np.savez(folder / "data.npz", allow_pickle=False, **samples)
        file = folder / "reference.npz"
        if not file.exists():
            with self.served(REFERENCE, folder / "model.onnx", folder / "data.npz") as talk:
                talk("")
                talk(f"outputs {file}")
        with np.load(file) as arrays:
            return Place(folder, arrays[arrays.files[0]].astype(np.float64))

    def converted(self, row: Row, kind: str, peer: str, place: Place) -> Cell:
        """Convert a network for another runtime."""
        sources = [
            (HERE / f"{name}.py").read_text() for name in ("peer_conversions", "block_models")
        ]
        key = self.versions(peer), *sources, row.method
        words = ("convert", peer, kind, place.model, place.data, place.folder, row.method)
        mark = place.folder / f"{peer}-{kind}.json"
        found = remade(mark, key, lambda: self.ask(peer, *words))
        if "is_late" in found:
            mark.unlink()  # The next run tries again.
        return Cell(peer, reason=found.get("refused", ""), form=found.get("form", ""))

    def compiled(self, row: Row, kind: str, place: Place, model: Path) -> Cell:
        """Compile a network to C, and the C to programs. The form is the folder of the programs."""
        states = [word for pair in row.states for word in ("--state", "=".join(pair))]
        options = ["--quantize", "auto" if row.is_quantized else "none", *states, *self.board]
        if kind != "float" and not row.is_quantized:
            given = place.folder / "inputs.npz"
            with np.load(place.data) as arrays:
                hidden = {name for name, _ in row.states}
                kept = {n: without_batch(arrays[n]) for n in arrays if n not in hidden}
                np.savez(given, allow_pickle=False, **kept)
            options = ["--quantize", "int8", "--calibrate", str(given), *states, *self.board]
            options += self.budget
        source = place.folder / f"c-{kind}"
        build = place.folder / f"c-{kind}-{self.isa}-{'threads' if self.threads > 1 else 'serial'}"
        flags = ["-O3", "-march=native", *(NO_TILES if self.isa == "vnni" else ())]
        make = ["make", "-C", build, f"CFLAGS={' '.join(flags)}"]
        make += ["THREADS=1"] if self.threads > 1 else []
        cell = Cell("C", form=str(build))

        def generate() -> None:
            shutil.rmtree(source, ignore_errors=True)
            words = "-o", source, "--target", "c", "--optimize", "speed"
            run(BIN / "ceras-compile", model, *words, *options)

        def link() -> None:
            shutil.rmtree(build, ignore_errors=True)
            shutil.copytree(source, build)
            run(*make)

        try:
            remade(source.with_suffix(".json"), (self.compiler, options), generate)
            key = self.compiler, options, [str(word) for word in make]
            remade(build.with_suffix(".json"), key, link)
        except Failed as error:
            cell.reason = str(error)[:200]
        return cell

    def c_output(self, cell: Cell, place: Place) -> NDArray[Any]:
        """Return the first output of the C for sample 0."""
        build = Path(cell.form)
        manifest = json.loads((build / "manifest.json").read_text())
        with np.load(place.data) as arrays:
            given = [arrays[t["name"]][0] for t in manifest["inputs"]]
        (build / "in.bin").write_bytes(b"".join(array.tobytes() for array in given))
        run(build / "model_run", build / "in.bin", build / "out.bin")
        return np.fromfile(build / "out.bin", np.float32, place.reference.size)

    def c_time(self, cell: Cell, seconds: float, threads: int) -> dict[str, float]:
        """Run the C for about `seconds`; return processor and elapsed time in milliseconds."""
        processors = sorted(os.sched_getaffinity(0))[-threads:]
        words = ["taskset", "-c", ",".join(map(str, processors)), Path(cell.form) / "model_bench"]
        extra = {"OMP_NUM_THREADS": str(threads)}
        once = json.loads(run(*words, "3", **extra))["wall_median_ms"]
        runs = min(max(3, round(seconds * 1e3 / once)), 100_000)
        found = json.loads(run(*words, str(runs), **extra))
        return {"process": found["median_ms"], "wall": found["wall_median_ms"]}

    @contextmanager
    def served(self, program: str, form: Path | str, data: Path) -> Generator[Talk]:
        """
        Start a runtime with a network, and yield a function that sends a line and returns the
        answer. The first line must be empty; the answer describes the process.
        """
        python = self.pythons["onnxruntime" if program == REFERENCE else program]
        words = (python, HERE / "peer_process.py", "serve", program, form)
        process = subprocess.Popen(
            [*map(str, words), str(self.threads), self.isa, str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdin is not None and process.stdout is not None
        sent, received = process.stdin, process.stdout

        def talk(line: str) -> dict[str, Any]:
            if line:
                sent.write(line + "\n")
                sent.flush()
            for text in received:
                if text.startswith("@"):
                    found = json.loads(text[1:])
                    if "refused" in found:
                        raise Failed(found["refused"])
                    return found
            raise Failed(f"the process exited with status {process.wait()}")

        try:
            yield talk
        finally:
            process.kill()
            process.wait()


def without_batch(samples: NDArray[Any]) -> NDArray[Any]:
    """Return samples [N, 1, ...] in the form [N, ...] that the compiler expects."""
    return samples[:, 0] if samples.shape[1] == 1 else samples


def agreement(reference: NDArray[np.float64], found: Sequence[NDArray[Any]]) -> float:
    """
    Return the signal-to-noise ratio in dB of the best output with the size of the reference; nan
    if no output has this size. Names are not compared.
    """
    ratios: list[float] = []
    for array in found:
        if array.size != reference.size:
            continue
        array = np.asarray(array, np.float64)
        if reference.ndim > 2 and array.shape == np.moveaxis(reference, 1, -1).shape:
            array = np.moveaxis(array, -1, 1)  # The layout of TensorFlow.
        noise = np.square(array.reshape(reference.shape) - reference).sum()
        signal = np.square(reference).sum()
        ratios.append(10 * math.log10(signal / noise) if noise else math.inf)
    return max(ratios, default=math.nan)
