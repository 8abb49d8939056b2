"""
Run the commands on mutants of IR text, models, folders, boards, arrays, studies and options.

    python test/mutants/fuzz.py [--count 2000] [--first 0] [--kind ir|onnx|folder|npz|...]...

The kinds are `count` mutants of text, `count / 2` of ONNX models and of arrays, and `count / 4` of
the other kinds: folders and boards, studies, files of all kinds with changed bytes, models of
TensorFlow Lite and PyTorch, nnet files, images, labels, memories, plugins, and values of options.
Each command has to exit within the time limit, with a documented status and without a traceback.
The other mutants are printed, and kept in the folder that the last line names.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from mutants import archives, files, folders, ir, onnx_files
from mutants.forked import Main, Outcome, run
from onnx_models import conv_model

from ceras_ir.backends.nnet.tool import main as nnet_main
from ceras_ir.command.exit_status import run_tool
from ceras_ir.data.array_archive import save_arrays
from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.opt.tool import main as opt_main
from ceras_ir.driver.run import main as run_main
from ceras_ir.driver.verify.tool import main as verify_main
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function
from ceras_ir.targets.registry import all_targets
from ceras_ir.universe import CERAS_UNIVERSE
from ceras_ir.workbench.compare.tool import main as compare_main
from ceras_ir.workbench.explore.known_figures import check_figures
from ceras_ir.workbench.explore.study_file import load_study

TARGETS = ("c", "nnet", "vta", "onnx", "arduino")
TEXTS = ("c", "nnet", "vta", "onnx")
PIPELINES = (
    *(
        "fuse",
        "quantize",
        "fuse,quantize",
        "fuse,quantize,place",
        "allocate-blocks",
        "canonicalize",
    ),
    *("fuse,quantize,place{target=vta},convert-graph-to-tile,fold-packing,tile,allocate-blocks",),
    *("tile", "convert-tile-to-vta", "place{target=nnet}", "check-scales,prove-accumulators"),
)

Case = tuple[Main, list[str]]


def text_case(seed: int, folder: Path) -> Case:
    """Create a mutant of text to parse, transform, print for a target, or run."""
    text = ir.mutant(seed)
    (folder / "mutant.mlir").write_text(text)
    draw = random.Random(seed + 1)
    match draw.randrange(6):
        case 0 | 1:
            return opt_main, ["mutant.mlir"]
        case 2:
            passes = sorted(CERAS_UNIVERSE.all_passes)
            return opt_main, ["mutant.mlir", "-p", draw.choice(passes)]
        case 3:
            return opt_main, ["mutant.mlir", "-p", draw.choice(PIPELINES)]
        case 4:
            return opt_main, ["mutant.mlir", "-t", draw.choice(TEXTS)]
        case _:
            _save_inputs(text, folder / "in.npz")
            return run_main, ["mutant.mlir", "--inputs", "in.npz", "--outputs", "out.npz"]


def _save_inputs(text: str, path: Path) -> None:
    """Write zeros for the graph inputs, if these can be determined."""
    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}
    with suppress(Exception):
        for info in network_inputs(main_function(ir.parse(text))):
            if info.size < 1 << 20:
                arrays[info.name] = np.zeros(info.shape, info.dtype)
    save_arrays(str(path), arrays)


def model_case(seed: int, folder: Path) -> Case:
    """Create a mutant of a model, which is imported, compiled or verified."""
    (folder / "mutant.onnx").write_bytes(onnx_files.mutant(seed))
    draw = random.Random(seed + 1)
    target, quantize = draw.choice(TARGETS), draw.choice(("auto", "int8", "none"))
    match draw.randrange(8):
        case 0 | 1 | 2 | 3:
            return opt_main, [
                "mutant.onnx",
                *draw.choice(([], ["--fuse"], ["--fuse", "--quantize"])),
            ]
        case 7:
            return verify_main, ["mutant.onnx", "--targets", target, "--samples", "1"]
        case _:
            options = ["--target", target, "--quantize", quantize, "--recipe", "none"]
            return compile_main, ["mutant.onnx", "-o", "out", *options]


def folder_case(seed: int, folder: Path) -> Case:
    """Create a mutant of a compiled folder to run, or of a board to compile for."""
    draw = random.Random(seed)
    if draw.random() < 0.5:
        target = draw.choice(("c", "vta", "nnet"))
        name, text = folders.board(draw, target)
        (folder / name).write_text(text)
        options = ["--target", target, "--board", name, "--quantize", "int8", "--recipe", "none"]
        return compile_main, [str(COMPILED / "m.onnx"), "-o", "out", *options]
    folders.folder(draw, COMPILED / draw.choice(("c", "vta", "nnet")), folder / "compiled")
    inputs = ["--inputs", str(COMPILED / "x.npz"), "--outputs", "out.npz"]
    return run_main, ["compiled", *inputs]


def archive_case(seed: int, folder: Path) -> Case:
    """Create a mutant of samples or labels, which a command reads."""
    (folder / "mutant.npz").write_bytes(archives.mutant(seed, (2, 2, 6, 6)))
    draw, model = random.Random(seed + 1), str(COMPILED / "m.onnx")
    target = ["--target", "c"]
    match draw.randrange(5):
        case 0 | 1:
            return run_main, [model, "--inputs", "mutant.npz", "--outputs", "out.npz"]
        case 2:
            return compile_main, [model, "-o", "out", *target, "--calibrate", "mutant.npz"]
        case 3:
            return verify_main, [model, "--targets", "c", "--inputs", "mutant.npz"]
        case _:
            data = ["--calibrate", str(COMPILED / "x.npz"), "--inputs", str(COMPILED / "x.npz")]
            return compare_main, [model, *data, "--labels", "mutant.npz", "--jobs", "1"]


def read_study(argv: Sequence[str]) -> int:
    """Read a study as `ceras-explore` does before it starts trials, and evaluate expressions."""

    def read(argv: Sequence[str]) -> int:
        study = load_study(argv[0], Path("boards"))
        check_figures(study, argv[0])
        for expression in study.constraints:
            expression.value({"flash_bytes": 1.0, "macs": 2.0})
        return 0

    return run_tool("ceras-explore", read, argv)


def study_case(seed: int, folder: Path) -> Case:
    """Create a mutant of a study, or of a condition on the points of a study."""
    for name in ("m.onnx", "x.npz"):
        shutil.copy(COMPILED / name, folder)
    (folder / "study.toml").write_text(folders.study(random.Random(seed)))
    return read_study, ["study.toml"]


def where_case(seed: int, folder: Path) -> Case:
    """Create a condition on the points of a study."""
    for name in ("m.onnx", "x.npz"):
        shutil.copy(COMPILED / name, folder)
    study = json.loads(json.dumps(folders.STUDY))
    study["objectives"]["constraints"] = [files.condition(random.Random(seed))]
    (folder / "study.toml").write_text(folders.as_toml(study))
    return read_study, ["study.toml"]


def frontend_case(seed: int, folder: Path) -> Case:
    """Create a mutant of a file of TensorFlow Lite or PyTorch, which is compiled."""
    draw = random.Random(seed)
    name = draw.choice(("mutant.tflite", "mutant.tflite", "mutant.tflite", "mutant.pt2"))
    make = files.tflite if name.endswith("tflite") else files.program
    (folder / name).write_bytes(make(draw))
    target = draw.choice(("c", "nnet", "vta"))
    return compile_main, [name, "-o", "out", "--target", target, "--recipe", "none"]


def nnet_case(seed: int, folder: Path) -> Case:
    """Create a mutant of an nnet file, which is printed or checked."""
    draw = random.Random(seed)
    data = files.nnet_file(COMPILED)
    (folder / "mutant.nnet").write_bytes(files.nnet(draw, data))
    (folder / "other.nnet").write_bytes(data)
    words = draw.choice((["dump"], ["dump", "--bytes"], ["check"], ["diff", "other.nnet"]))
    return nnet_main, [*words, "mutant.nnet"]


def data_case(seed: int, folder: Path) -> Case:
    """Create a mutant of an image, an `.npy` file, labels, or a table of memories."""
    draw, model = random.Random(seed), str(COMPILED / "gray.onnx")
    match draw.randrange(4):
        case 0:
            name, data = files.image(draw)
            (folder / "images").mkdir()
            (folder / "images" / name).write_bytes(data)
            calibrate = ["--calibrate", "images"]
            return compile_main, [model, "-o", "out", "--target", "c", *calibrate]
        case 1:
            (folder / "mutant.npy").write_bytes(files.array(draw))
            return run_main, [model, "--inputs", "mutant.npy", "--outputs", "out.npz"]
        case 2:
            (folder / "labels.txt").write_bytes(files.labels(draw))
            inputs = ["--inputs", str(COMPILED / "gray.npz")]
            return run_main, [model, *inputs, "--labels", "labels.txt"]
        case _:
            (folder / "memory.toml").write_text(files.regions(draw))
            pipeline = "fuse,allocate-blocks{regions=memory.toml}"
            return opt_main, [model, "-p", pipeline, "-o", "out.mlir"]


def plugin_case(seed: int, folder: Path) -> Case:
    """Create a plugin with random declarations."""
    draw = random.Random(seed)
    (folder / "mine.py").write_text(files.plugin(draw), errors="replace")
    kind = draw.choice(("pass", "dialect", "target"))
    load = f"--load-{kind}-plugin=mine.py"
    match draw.randrange(3):
        case 0:
            return opt_main, [load, "--list-passes"]
        case 1:
            return opt_main, [str(COMPILED / "m.onnx"), load, "-p", "mine"]
        case _:
            target = draw.choice(("mine", "c"))
            return compile_main, [str(COMPILED / "m.onnx"), load, "--target", target, "-o", "out"]


def option_case(seed: int, _: Path) -> Case:
    """Draw values of options."""
    words = files.options(random.Random(seed))
    return compile_main, [str(COMPILED / "m.onnx"), "-o", "out", "--target", "c", *words]


def bytes_case(seed: int, folder: Path) -> Case:
    """Change bytes of the files of a case of another kind."""
    draw = random.Random(seed)
    make = draw.choice((text_case, model_case, folder_case, archive_case, study_case, nnet_case))
    main, arguments = make(seed, folder)
    places = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    path = draw.choice(places)
    path.write_bytes(archives.changed(draw, path.read_bytes()))
    return main, arguments


COMPILED = Path(tempfile.gettempdir()) / f"ceras-mutants-{os.getpid()}"


def compile_folders() -> None:
    """Compile the folders that are mutated, if they do not exist; the caller removes `COMPILED`."""
    if COMPILED.exists():
        return
    COMPILED.mkdir(parents=True)
    (COMPILED / "m.onnx").write_bytes(conv_model((1, 2, 6, 6), 3, (3, 3)).SerializeToString())
    np.savez(COMPILED / "x.npz", x=np.zeros((1, 2, 6, 6), np.float32))
    gray = conv_model((1, 1, 6, 6), 3, (3, 3))
    (COMPILED / "gray.onnx").write_bytes(gray.SerializeToString())
    np.savez(COMPILED / "gray.npz", x=np.zeros((1, 1, 6, 6), np.float32))
    for target in ("c", "vta", "nnet"):
        options = ["--target", target, "--quantize", "int8", "--recipe", "none"]
        outcome = run(compile_main, [str(COMPILED / "m.onnx"), "-o", target, *options], COMPILED)
        assert outcome.status == 0, outcome.errors


KINDS: dict[str, tuple[Callable[[int, Path], Case], int]] = {
    "ir": (text_case, 1),
    "onnx": (model_case, 2),
    "folder": (folder_case, 4),
    "npz": (archive_case, 2),
    "study": (study_case, 4),
    "bytes": (bytes_case, 4),
    "frontend": (frontend_case, 4),
    "nnet": (nnet_case, 4),
    "data": (data_case, 4),
    "plugin": (plugin_case, 4),
    "option": (option_case, 4),
    "where": (where_case, 4),
}
"""The case function of each kind, and the number of text mutants per mutant of this kind."""


@cache
def preload() -> None:
    """Import the modules here that each child would otherwise import."""
    for factories in (CERAS_UNIVERSE.all_passes, CERAS_UNIVERSE.all_dialects):
        for factory in factories.values():
            factory()
    for cls in all_targets():
        assert cls.name


def outcomes(kind: str, seeds: Sequence[int], keep: Path | None = None) -> Iterator[Outcome]:
    """Run the commands on the mutants of `seeds`; failed mutants are copied into `keep`."""
    make, _ = KINDS[kind]
    preload()
    if kind not in ("ir", "onnx"):
        compile_folders()
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="ceras-mutant-") as name:
            main, arguments = make(seed, Path(name))
            outcome = run(main, arguments, Path(name))
            if not outcome.good and keep is not None:
                shutil.copytree(name, keep / f"{kind}-{seed}", dirs_exist_ok=True)
            yield outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=sorted(KINDS), action="append")
    arguments = parser.parse_args()
    failed = Path(tempfile.mkdtemp(prefix="ceras-mutants-failed-"))
    bad = 0
    for kind in arguments.kind or KINDS:
        count = arguments.count // KINDS[kind][1]
        seeds = range(arguments.first, arguments.first + count)
        statuses, start = Counter[int](), monotonic()
        for seed, outcome in zip(seeds, outcomes(kind, seeds, failed), strict=True):
            statuses[outcome.status] += 1
            if statuses.total() % 100 == 0:
                print(f"{kind}: {statuses.total()} of {count}", file=sys.stderr, flush=True)
            if not outcome.good:
                bad += 1
                last = "\n".join(outcome.errors.splitlines()[-8:])
                print(f"{kind} {seed}: {outcome.command}: {outcome.status}\n{last}", flush=True)
        seconds = monotonic() - start
        ends = dict(sorted(statuses.items()))
        print(f"{kind}: {count} mutants in {seconds:.0f} s, by status {ends}")
    shutil.rmtree(COMPILED, ignore_errors=True)
    if bad:
        print(f"{bad} mutants fail: {failed}")
    else:
        failed.rmdir()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
