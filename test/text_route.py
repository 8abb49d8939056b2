"""
Check the texts of a network.

Each level that `ceras-compile --save-temps` writes is run, printed again, and compiled again.
`ceras-opt` has to create the same quantized graph from the same options.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from called import Refused, Wrong, call
from onnx_models import Array, run_onnxruntime
from random_cases import Case
from xdsl.parser import Parser

from ceras_ir.data.array_archive import save_arrays
from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.opt.tool import main as opt_main
from ceras_ir.driver.run import main as run_main
from ceras_ir.pipeline.context import load_context
from ceras_ir.targets.registry import find_target

SAMPLES = 3
CHANGING = ("graph", "fused", "HardSwish", "pruned", "quantized", "int8-border", "encoded")
"""Prefixes of the names of levels that compute a different result from the previous level."""
PASS_OPTIONS = {
    "--calibrate": "calibration",
    "--calibration-samples": "samples",
    "--calibration-seed": "draw",
    "--board": "board",
    "--recipe": "recipe",
    "--silu": "silu",
    "--rows": "rows",
    "--observer": "observer",
    "--budget": "budget",
    "--int16": "int16",
    "--weight-bits": "weight_bits",
    "--float": "float",
}
"""Map options of the commands to options of the pass `quantize`."""
CALIBRATION = ("calibration", "samples", "draw", "silu", "observer")
"""The options of the pass `calibrate`."""

LOCATION = re.compile(r"loc\(.*")

Outputs = dict[str, Array]


def through_text(
    folder: Path, target: str, options: Sequence[str], case: Case, random: np.random.Generator
) -> None:
    """Raise Wrong if two ways to compute a result differ."""
    in_float = "none" in options[:2]
    io = [] if in_float or random.integers(4) else ["--io", "int8"]
    given = ["--target", target, *options, *io]
    out = folder / "out"
    call(compile_main, str(folder / "model.onnx"), "-o", str(out), "--save-temps", *given)
    levels = _levels(out)
    inputs = folder / "in.npz"
    save_arrays(str(inputs), _inputs(out, case, random))
    first = max(i for i, each in enumerate(levels) if _changes(each))
    wanted = _run(levels[first], inputs)
    for level in (*levels[first + 1 :], out):
        _compare(f"{level.name} and {levels[first].name}", _run(level, inputs), wanted, in_float)
    if target == "onnx" and not in_float:
        _in_runtime(out, inputs, wanted, levels[first].read_text())
    # Each run tests only one of the other ways, so that there is time for more seeds.
    way = int(random.integers(3 if in_float else 5))
    if way == 0:
        level = levels[int(random.integers(len(levels)))]
        _same_text("printed again", call(opt_main, str(level)), level.read_text())
    elif way == 1:
        level, generic = levels[int(random.integers(len(levels)))], folder / "generic.mlir"
        generic.write_text(call(opt_main, str(level), "--print-op-generic"))
        _same_text("through the generic form", call(opt_main, str(generic)), level.read_text())
    elif way == 2:
        level, again = levels[int(random.integers(first, len(levels)))], folder / "again"
        call(compile_main, str(level), "-o", str(again), *_without_front(given, target))
        _compare(f"{level.name} compiled again", _run(again, inputs), wanted, in_float)
    elif way == 3:
        _by_passes(folder, target, given, levels)
    else:
        _with_what_was_learnt(folder, target, given, levels)


def _levels(out: Path) -> list[Path]:
    return sorted((out / "temps").glob("*.mlir"), key=lambda path: int(path.name.split("-")[0]))


def _changes(level: Path) -> bool:
    return level.name.partition("-")[2].startswith(CHANGING)


def _inputs(out: Path, case: Case, random: np.random.Generator) -> Outputs:
    """Return the first samples, or random integers if the folder accepts integers."""
    found = dict[str, Array]()
    for entry in json.loads((out / "manifest.json").read_text())["inputs"]:
        kind, count = np.dtype(entry["dtype"]), SAMPLES
        array = case.data[entry["name"]][:count]
        if kind.kind == "i" and array.dtype.kind == "f":
            bounds = np.iinfo(kind)
            array = random.integers(bounds.min, bounds.max + 1, array.shape).astype(kind)
        found[entry["name"]] = array
    return found


def _run(what: Path, inputs: Path) -> Outputs:
    outputs = inputs.with_name("outputs.npz")
    call(run_main, str(what), "--inputs", str(inputs), "--outputs", str(outputs))
    with np.load(outputs) as arrays:
        return dict(arrays)


def _compare(what: str, got: Outputs, wanted: Outputs, in_float: bool) -> None:
    if list(got) != list(wanted):
        raise Wrong(f"{what}: outputs {list(got)} and {list(wanted)}")
    for name, array in wanted.items():
        if (got[name].dtype, got[name].shape) != (array.dtype, array.shape):
            raise Wrong(f"{what}: {name} is {got[name].dtype}, {got[name].shape}")
        same = np.array_equal(got[name], array, equal_nan=array.dtype.kind == "f")
        scale = max(float(np.abs(array).max(initial=0)), 1e-6)
        if not same and not (in_float and np.abs(got[name] - array).max() <= 1e-4 * scale):
            places = np.argwhere(got[name] != array)
            where = tuple(places[0])
            values = f"{got[name][where]} and {array[where]}"
            raise Wrong(f"{what}: {name}{list(map(int, where))} is {values}, {len(places)} differ")


def _in_runtime(out: Path, inputs: Path, wanted: Outputs, text: str) -> None:
    """Compare with ONNX Runtime if docs/onnx-export.md promises equal integers."""
    if "i16" in text or "graph.unary" in text or "graph.binary pow" in text:
        return
    model = onnx.ModelProto.FromString((out / "model.onnx").read_bytes())
    with np.load(inputs) as arrays:
        samples = dict(arrays)
    for number in range(SAMPLES):
        one = {
            value.name: samples[value.name][number].reshape(
                [size.dim_value for size in value.type.tensor_type.shape.dim]
            )
            for value in model.graph.input
        }
        for name, array in run_onnxruntime(model, one).items():
            expected = wanted[name][number].reshape(array.shape)
            # A result after a float operation is only as exact as that operation.
            if np.abs(array.astype(np.float64) - expected).max(initial=0) > 1e-6:
                raise Wrong(f"ONNX Runtime: {name} of sample {number} differs")


def _same_text(what: str, got: str, wanted: str) -> None:
    """Compare operations and names; attributes may have a different order."""
    if got.strip() == wanted.strip():
        return
    modules = [Parser(load_context(), text).parse_module() for text in (got, wanted)]
    same = modules[0].is_structurally_equivalent(modules[1])
    if not same or LOCATION.findall(got) != LOCATION.findall(wanted):
        pairs = zip(got.strip().splitlines(), wanted.strip().splitlines(), strict=False)
        line = next((f"{a}\n  instead of\n{b}" for a, b in pairs if a != b), "length")
        raise Wrong(f"{what}: {line[:2000]}")


def _without_front(given: Sequence[str], target: str) -> list[str]:
    """Return the options of the target, which also apply to the text of a level."""
    kept, words = ["--target", target], list(given)
    for flag, value in zip(words, [*words[1:], ""], strict=True):
        if flag in TARGET_FLAGS:
            kept += [flag, value] if flag not in SWITCHES else [flag]
    return kept


SWITCHES = ("--no-winograd", "--python-wrapper")
TARGET_FLAGS = (
    *("--board", "--weights", "--regions", "--name", "--convolution", "--streams"),
    *SWITCHES,
)


def _by_passes(folder: Path, target: str, given: Sequence[str], levels: Sequence[Path]) -> None:
    """Check that `ceras-opt` creates the same quantized graph from the same options."""
    passes, chosen = _passes(target, given)
    made = call(opt_main, str(levels[0]), "--fuse", *passes(chosen))
    _same_text("quantized by ceras-opt", made, _quantized(levels))


def _with_what_was_learnt(
    folder: Path, target: str, given: Sequence[str], levels: Sequence[Path]
) -> None:
    """Compile text that holds the results of calibration, with `ceras-opt` and `ceras-compile`."""
    passes, chosen = _passes(target, given)
    if (data := chosen.get("calibration")) is None:
        return
    calibrated, out = str(folder / "calibrated.mlir"), folder / "learnt"
    calibrate = _words("--calibrate", {k: v for k, v in chosen.items() if k in CALIBRATION})
    call(opt_main, str(levels[0]), "--fuse", calibrate, "-o", calibrated)
    del chosen["calibration"]
    made = call(opt_main, calibrated, "--fuse", *passes(chosen))
    words = list(given)
    at = words.index(data)
    words[at - 1 : at + 1] = ["--quantize", "int8"]
    words = _without(words, "--state")
    try:
        call(compile_main, calibrated, "-o", str(out), "--save-temps", *words)
    except Refused as error:
        raise Wrong(f"compiled with the data, and refused with what was learnt: {error}") from None
    _same_text("quantized with what was learnt", made, _quantized(_levels(out)))


def _passes(
    target: str, given: Sequence[str]
) -> tuple[Callable[[Mapping[str, str]], list[str]], dict[str, str]]:
    """Return a function from options of `quantize` to passes, and the options in `given`."""
    pairs = dict(zip(given, [*given[1:], ""], strict=True))
    before = [] if "--prune" not in pairs else [f"--prune={pairs['--prune']} bits=8"]
    arithmetic = find_target(target).arithmetic
    before += [f"--widen-activations=target={target}"]
    if not (arithmetic.multipliers and arithmetic.kernels):
        before += [f"--unfold-qdq=target={target}"]
    behind = [f"--widen-weights=target={target}"]
    if not arithmetic.multipliers:
        before += [*behind, "--snap-scales"]
    always = {"target": target} | ({"tail": "int8"} if "--io" in pairs else {})
    behind += ["--strip-border-quantization"] if "--io" in pairs else []

    def passes(chosen: Mapping[str, str]) -> list[str]:
        return [*before, _words("--quantize", {**chosen, **always}), *behind]

    return passes, {name: pairs[flag] for flag, name in PASS_OPTIONS.items() if flag in pairs}


def _quantized(levels: Sequence[Path]) -> str:
    """Return the text after quantization, and after the border pass if that is int8."""
    named = {level.name.partition("-")[2]: level for level in levels}
    return named.get("int8-border.mlir", named["quantized-graph.mlir"]).read_text()


def _words(flag: str, options: Mapping[str, str]) -> str:
    return f"{flag}={' '.join(f'{key}={value}' for key, value in options.items())}"


def _without(words: Sequence[str], flag: str) -> list[str]:
    kept = list[str]()
    for before, word in zip(["", *words], words, strict=False):
        if flag not in (before, word):
            kept.append(word)
    return kept
