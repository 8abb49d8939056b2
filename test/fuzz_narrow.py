"""
Compare random networks with weights and activations of 1 to 8 bits at all levels and targets.

    python test/fuzz_narrow.py [--count 1000] [--first 0] [--targets c,nnet,vta]
        [--dataflow-every 0] [--boards-every 16] [--keep DIR] [--ties]

1. The import equals formulas in float64 (`narrow_networks.py`), as do ONNX Runtime and the package
   `qonnx`, where they are installed and have the operators.
2. The quantized graph of target c equals the formulas if all sums are integers that are requantized
   directly, or if a QONNX network has scales that are powers of two, which all networks have with
   `--ties`. Otherwise, `ceras-verify` compares it with the network as written.
3. `ceras-verify` finds equal bits at each level and on each target, emulated boards included.
4. C equals the interpreter with inaccessible bytes between all values, for a random processor.
5. A network in float has the requested bits of weights; the difference from the formulas on the
   stored weights is noise of the activations, of which two of three networks request fewer bits.

Failures are printed with their seeds, and the exit status is 1.
"""

import argparse
import contextlib
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import numpy as np
from c_harness import check
from called import Refused, Wrong, call
from generated.routes import quick_compiler
from narrow_networks import NarrowNetwork, Real, narrow_network
from numpy.typing import NDArray
from onnx_models import run_onnxruntime
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.machines import COptions
from ceras_ir.data.array_archive import save_arrays
from ceras_ir.dialects import graph
from ceras_ir.driver.verify.tool import main as verify_main
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network import integer
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.support.diagnostics import UnsupportedError, node_name
from ceras_ir.targets.registry import find_target

Inputs = list[NDArray[np.float32]]

SAMPLES = 2
CALIBRATION = 16
RECIPE = ("choose-zero-points", "choose-row-exponents")
"""Optional passes that do not scale the weights of a channel."""
MIN_SIGNAL_DB, DB_PER_BIT = 15.0, 6.0
"""
The minimum ratio to the noise of 8-bit activations, and the difference for a bit less. Random
layers can cancel, so it is low.
"""

C_OPTIONS = (
    COptions(vectors=False, workspace=2048),
    COptions(vectors=False, dsp=True, workspace=2048),
    COptions(vectors=False, dsp=True, workspace=1 << 20),
    COptions(),
    COptions(weights="file"),
)
BOARDS = ("c:uno_r4_wifi", "c:nano_33_iot", "c:alif_e7_hp", "arduino:uno_r4_wifi", "c:esp32_c3")


@dataclass(frozen=True)
class Case:
    """A network and its inputs in a folder."""

    seed: int
    network: NarrowNetwork
    inputs: Inputs
    folder: Path

    @property
    def options(self) -> list[str]:
        """The options of the commands: the inputs, and for a network in float the bits."""
        found = ["--inputs", str(self.folder / "in.npz"), "--floor", "-1000"]
        if self.network.form != "float":
            return found
        found += ["--calibrate", str(self.folder / "calibration.npz")]
        for name, bits in self.network.weight_bits.items():
            found += ["--weight-bits", f"{bits}:{name}"]
        for entry in self.activation_bits:
            found += ["--activation-bits", entry]
        return found

    @property
    def least_bits(self) -> int:
        """The requested bits of activations of a network in float, 2 to 8."""
        return 8 if self.network.form != "float" or self.seed % 3 == 0 else 2 + self.seed // 3 % 6

    @property
    def activation_bits(self) -> tuple[str, ...]:
        """The entries of `--activation-bits`: for all inner layers, or for all values."""
        if self.least_bits == 8:
            return ()
        return (f"{self.least_bits}:*" if self.seed % 3 == 1 else str(self.least_bits),)

    def save(self) -> None:
        (self.folder / "model.onnx").write_bytes(self.network.model.SerializeToString())
        save_arrays(str(self.folder / "in.npz"), {"x": self.network.stacked(self.inputs)})
        if self.network.form == "float":
            save_arrays(
                str(self.folder / "calibration.npz"), {"x": self.network.stacked(self.calibration)}
            )

    @property
    def calibration(self) -> Inputs:
        return [*self.inputs, *self.network.samples(self.seed + 1, CALIBRATION)]


def make(seed: int, folder: Path, *, ties: bool = False) -> Case | None:
    """Return the network of a seed; None if float32 leaves the results of all inputs open."""
    network = narrow_network(seed, ties=ties)
    inputs = network.samples(seed, SAMPLES)
    return Case(seed, network, inputs, folder) if len(inputs) == SAMPLES else None


def difference(got: NDArray[Any], expected: Real, step: float) -> str:
    """Compare real values; integers times a scale differ by a part of a step, from rounding."""
    apart = np.abs(got.astype(np.float64) - expected)
    if got.shape == expected.shape and apart.max(initial=0) <= step:
        return ""
    at = tuple(int(i) for i in np.argwhere(apart > step)[0])
    count = np.count_nonzero(apart > step)
    return f"{count} of {apart.size} differ, first {list(at)}: {got[at]}, expected {expected[at]}"


def tolerance(network: NarrowNetwork, expected: Real) -> float:
    if network.last is not None:
        return float(network.last.scale.min()) / 4
    return 1e-5 * float(np.abs(expected).max()) + 1e-6


def references(case: Case) -> Iterator[tuple[str, list[NDArray[Any]]]]:
    """Yield the results of other programs that support the model."""
    network = case.network
    if network.form == "qonnx":
        try:
            wrapper = import_module("qonnx.core.modelwrapper").ModelWrapper
            infer = import_module("qonnx.transformation.infer_shapes").InferShapes
            execute = import_module("qonnx.core.onnx_exec").execute_onnx
        except ImportError:
            return
        made = wrapper(network.model).transform(infer())
        yield "package qonnx", [execute(made, {"x": x})[network.output] for x in case.inputs]
        return
    try:
        found = [run_onnxruntime(network.model, {"x": x}) for x in case.inputs]
    except Exception as error:  # The runtime has no narrower error type.
        assert "int2" in str(error).lower() or "opset" in str(error).lower(), error
        return
    yield "ONNX Runtime", [each[network.output] for each in found]


def quantized(case: Case) -> ModuleOp:
    """Return the quantized graph of target c."""
    network, module = case.network, import_model(case.network.model)
    options = BuildOptions(find_target("c")(), quantize="int8")
    if network.form == "float":
        options = BuildOptions(
            find_target("c")(),
            calibration=str(case.folder / "calibration.npz"),
            recipe=RECIPE,
            weight_bits=tuple(f"{bits}:{name}" for name, bits in network.weight_bits.items()),
            activation_bits=case.activation_bits,
        )
    run_stages(load_context(), module, front_stages(options.resolved(module)))
    return module


def stored_weights(case: Case, module: ModuleOp) -> dict[str, Real]:
    """Return the real values of the weights in `module` by name, in the order of the model."""
    found: dict[str, Real] = {}
    sources = {n.name: n for n in case.network.model.graph.node}
    for op in main_function(module).body.block.ops:
        if not isinstance(op, graph.LinearOperation) or (name := node_name(op)) not in sources:
            continue
        constant, element = op.weights.owner, graph.quantized_element(op.weights)
        if not isinstance(constant, graph.ConstantOp) or element is None:
            continue
        wanted = case.network.weight_bits.get(name, 8)
        assert element.width <= wanted, f"{name}: {element.width} bits, expected {wanted}"
        real = integer.dequantize(constant.array(), element).astype(np.float64)
        shape = case.network.constants[sources[name].input[1]].shape
        if real.ndim == 4:
            # Channels are last: [outputs, h, w, inputs].
            real = real.transpose(0, 3, 1, 2)
            if sources[name].op_type == "ConvTranspose":
                real = real.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
        elif not any(a.name == "transB" and a.i for a in sources[name].attribute):
            real = real.T
        if real.shape == shape:
            found[sources[name].input[1]] = real
    return found


def judge(case: Case, targets: str, counts: Counter[str]) -> Iterator[str]:
    """Yield the differences."""
    network, expected = case.network, [case.network.run(x) for x in case.inputs]
    for name, results in references(case):
        counts[name] += 1
        for got, want in zip(results, expected, strict=True):
            if said := difference(got, want, tolerance(network, want)):
                yield f"{name} and the formulas: {said}"
    module = import_model(network.model)
    for x, want in zip(case.inputs, expected, strict=True):
        got = run(module, {"x": x})[network.output]
        if said := difference(got, want, tolerance(network, want)):
            yield f"import: {said}"
    module = quantized(case)
    if network.form == "float":
        weights = stored_weights(case, module)
        # Transposed convolutions with strides have weights in another order.
        is_known = all(n.input[1] in weights for n in network.model.graph.node if len(n.input) > 1)
        expected = [network.run(x, weights) for x in case.inputs]
        results = [run(module, {"x": x})[network.output] for x in case.inputs]
        got, want = np.stack(results).astype(np.float64), np.stack(expected)
        noise, signal = float(((got - want) ** 2).sum()), float((want**2).sum())
        ratio = 10 * np.log10(signal / max(noise, 1e-30)) if signal and is_known else np.inf
        counts[f"float, below {10 * np.ceil(min(ratio, 60) / 10):.0f} dB"] += 1
        if ratio < MIN_SIGNAL_DB - DB_PER_BIT * (8 - case.least_bits):
            yield f"{ratio:.1f} dB from the formulas on the stored weights"
    elif network.is_plain or (network.is_exact and network.form == "qonnx"):
        counts["exact"] += 1
        counts["ties"] += sum(map(network.count_ties, case.inputs))
        for x in case.inputs:
            want = network.run(x, halves_up=True)
            got = run(module, {"x": x})[network.output]
            if said := difference(got, want, tolerance(network, want)):
                yield f"quantized graph: {said}"
    options = C_OPTIONS[case.seed // 3 % len(C_OPTIONS)]
    try:
        check(module, {"x": case.inputs[0]}, options=options, tolerance=1e-5)
    except UnsupportedError:
        counts["refused: C with red zones"] += 1
    for target in targets.split(","):
        target, _, board = target.partition(":")
        words = ["--targets", target, *(["--board", board] if board else []), *case.options]
        if target == "dataflow":
            words += ["--stall", str(case.seed % 60), "--seed", str(case.seed)]
        try:
            text = call(verify_main, str(case.folder / "model.onnx"), *words)
        except Refused as error:
            counts[f"refused: {target}"] += 1
            counts[str(error).strip().splitlines()[-1][-150:]] += 1
            continue
        counts[f"{target} {board}".strip()] += 1
        counts["as written"] += "as written" in text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--targets", default="c,nnet,vta")
    parser.add_argument("--dataflow-every", type=int, default=0)
    parser.add_argument("--boards-every", type=int, default=16)
    parser.add_argument("--ties", action="store_true", help="few bits, and powers of two")
    parser.add_argument("--keep", type=Path, help="write the network of the last seed here")
    arguments = parser.parse_args()
    counts, wrong, start = Counter[str](), list[int](), monotonic()
    for seed in range(arguments.first, arguments.first + arguments.count):
        with tempfile.TemporaryDirectory(prefix="ceras-narrow-") as name, quick_compiler():
            folder = (arguments.keep or Path(name)).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            case = make(seed, folder, ties=arguments.ties)
            if case is None:
                counts["uncertain"] += 1
                continue
            case.save()
            targets = arguments.targets
            if arguments.dataflow_every and seed % arguments.dataflow_every == 0:
                targets += ",dataflow"
            if arguments.boards_every and seed % arguments.boards_every == 0:
                targets += f",{BOARDS[seed // arguments.boards_every % len(BOARDS)]}"
            counts[case.network.form] += 1
            said = list[str]()
            try:
                # Reproducers of crashes are written to this folder.
                with contextlib.chdir(folder):
                    said += judge(case, targets, counts)
            except UnsupportedError as error:
                counts["refused: computed INT2 and INT4"] += 1
                if "stored as" not in str(error):
                    said.append(str(error))
            except (Wrong, AssertionError) as error:
                said.append(str(error)[-3000:])
            except Exception:
                said.append(traceback.format_exc())
            for text in said:
                print(f"seed {seed} ({case.network.form}): {text}", flush=True)
            wrong += [seed] if said else []
        if (seed - arguments.first) % 25 == 24:
            print(f"before seed {seed + 1}: {dict(counts)}, wrong {wrong}", flush=True)
    for text, number in sorted(counts.items()):
        print(f"{number:6} {text}")
    print(f"wrong: {len(wrong)}, seeds {wrong}, in {monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
