"""
Measure what each pass, and each rule of a pass, gains on a network.

    python benchmarks/pass_benefits.py [--networks NAME ...] [--steps NAME ...] [--write]

1. Build each network for C (float and int8), nnet and VTA. Count the builds in which each step
   changes the IR. A step that only reorders operations also counts.
2. Build the networks that a step changes again without this step, until a network loses. A loss
   is a refused build, signal to noise, VTA cycles, modelled time, or bytes of RAM or flash.

`--write` stores the table in `ceras_ir/driver/opt/pass_benefits.json`, from which `--help-pass` and
`docs/passes.md` print it; with `--networks` or `--steps` the other entries remain. Steps without a
loss are listed at the end.
"""

import argparse
import io
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from benefit_networks import LIMITS, NETWORKS, STATES
from numpy.typing import NDArray
from onnx_models import random_inputs
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.driver.opt.modes import BENEFITS, Benefit, benefits
from ceras_ir.network.function import declare_states
from ceras_ir.pipeline.build import Build, build, open_folder
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.instrumentation import changed_operations, look
from ceras_ir.pipeline.parsing import load_module
from ceras_ir.pipeline.stages import FUSED, QUANTIZED, BuildOptions
from ceras_ir.targets.protocol import Stage
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.pass_kinds import AROUND
from ceras_ir.transforms.quantization.analysis.output_noise import output_ratio, outputs_of

SETTINGS: dict[str, dict[str, Any]] = {
    "c float": {"quantize": "none"},
    "c": {},
    "nnet": {},
    "vta": {},
}
"""The target, and the options that differ from int8."""
FURTHER: dict[str, dict[str, Any]] = {
    "c io=int8": {"io": "int8"},
    "c recipe=round-weights": {"recipe": ("round-weights",)},
    "c float=conv0": {"float": ("conv0",)},
    "c silu=table16": {"silu": "table16"},
    "c rows=float": {"rows": "float"},
    "vta int16": {"int16": ("relu*",)},
    "onnx": {},
    "c prune": {"prune": "sparsity=0.9"},
    "c weight_bits=4": {"quantize": "none", "weight_bits": ("4",)},
    "dataflow": {},
    "vta int16=*": {"int16": ("*",)},
}
"""Further settings for a few networks, in the same form."""
SPECIAL = {
    "byte_image": ("c io=int8",),
    "residual_network": ("c recipe=round-weights", "c prune", "onnx", "c float=conv0"),
    "silu_network": ("c silu=table16",),
    "layer_norm_network": ("c rows=float",),
    "wide_values": ("vta int16=*", "vta int16"),
    "multi_head": ("c rows=float", "c weight_bits=4"),
    "few_bits_of_any_scale": ("dataflow",),
    "far_rows": ("onnx",),
}
"""Networks that are also built with further settings."""
CALIBRATION, JUDGED = 16, 4
"""The number of samples for calibration, and for the comparison."""
EXACT = ("residual_network", "c float=conv0")
"""The build that also runs as C: floats that are summed in another order differ there."""
MIN_LOSS_DB = 0.3
MIN_LOSS = 0.01
"""The minimum share of cycles, time or bytes."""
WRONG_DB = 60.0
"""A float build below this ratio is wrong."""
MAX_TRIES = 16
"""The maximum number of builds in which a loss is searched."""
WITNESSES = {
    "equalize-channels": "unequal_channels",
    "fit-inputs": "byte_image",
    "align-scales": "large_bias",
    "quantize-graph{float-sums}": "residual_network",
    "choose-weight-exponents": "residual_network",
    "keep-in-float{head}": "normalized_features",
    "keep-in-float{tail}": "decoded_boxes",
    "set-functions{silu}": "silu_network",
}
"""The networks to try first, for steps that change most networks and improve few."""


@dataclass(frozen=True)
class Figures:
    """The figures of a build that are compared."""

    decibels: float
    costs: dict[str, float]


@dataclass
class Network:
    """A network in a file, with samples."""

    name: str
    folder: Path
    samples: list[dict[str, NDArray[Any]]] = field(default_factory=list[dict[str, NDArray[Any]]])

    def __post_init__(self) -> None:
        proto, limit = NETWORKS[self.name](), LIMITS.get(self.name, 2.0)
        Path(self.path).write_bytes(proto.SerializeToString())
        for seed in range(CALIBRATION + JUDGED):
            given = random_inputs(proto, seed, low=-limit, high=limit)
            states = STATES.get(self.name, {})
            self.samples.append({name: v for name, v in given.items() if name not in states})
        calibrating, self.samples = self.samples[:CALIBRATION], self.samples[CALIBRATION:]
        stacked: dict[str, Any] = {
            name: np.stack([sample[name] for sample in calibrating]) for name in calibrating[0]
        }
        np.savez(self.data, **stacked)

    @property
    def path(self) -> str:
        return str(self.folder / f"{self.name}.onnx")

    @property
    def data(self) -> str:
        return str(self.folder / f"{self.name}.npz")

    def module(self) -> ModuleOp:
        with redirect_stderr(io.StringIO()):
            module = load_module(load_context(), self.path)
        if self.name in STATES:
            declare_states(module, STATES[self.name])
        return module


@dataclass
class Steps:
    """Runs the steps of a build, counts those that change the IR, and leaves one out."""

    without: str | None = None
    changing: Counter[str] = field(default_factory=Counter[str])

    def __call__(self, name: str, module: ModuleOp, run: Callable[[], None]) -> None:
        if name == self.without:
            return
        before = {op: look(op) for op in module.walk()}
        run()
        if changed_operations(before, {op: look(op) for op in module.walk()}):
            self.changing[name] += 1


def figures(network: Network, setting: str, steps: Steps) -> Figures | str:
    """Build a network. Return a text if it is refused."""
    target, levels = setting.split()[0], dict[str, ModuleOp]()
    chosen: dict[str, Any] = {"quantize": "int8", **(SETTINGS | FURTHER)[setting]}
    is_float = chosen["quantize"] == "none"

    def keep(stage: Stage, at: ModuleOp) -> None:
        if stage.level in (FUSED, QUANTIZED):
            levels[stage.level] = at.clone()

    token = AROUND.set(steps)
    try:
        with redirect_stderr(io.StringIO()):
            data = None if is_float else network.data
            options = replace(BuildOptions(find_target(target)(), calibration=data), **chosen)
            built = build(network.module(), options, keep)
            computed = levels[FUSED if is_float else QUANTIZED]
            ratio = output_ratio(network.module(), computed, network.samples)
    # Any error of a build without a necessary pass is the result.
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
    finally:
        AROUND.reset(token)
    totals: Any = built.report["totals"]
    layers: Any = built.report["layers"]
    costs: dict[str, float] = {
        "VTA cycles": totals.get("vta_cycles", 0),
        "us (modelled)": sum(layer.get("microseconds", 0) for layer in layers),
        "bytes of RAM": totals.get("sram_bytes", 0),
        "bytes of flash": totals.get("flash_bytes", 0),
        "requantizations": totals.get("requantizations", 0),
        "bytes read and written": sum(layer["bytes"] for layer in layers),
    }
    if (network.name, setting) == EXACT:
        costs["values that differ in C"] = differences(built, computed, network)
    return Figures(float(ratio), costs)


def differences(built: Build, computed: ModuleOp, network: Network) -> int:
    """Return the number of output elements that differ from the interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        built.write(Path(folder))
        actual = list(open_folder(Path(folder)).run(network.samples))
    expected = outputs_of(computed, network.samples)
    return sum(
        int((a[name] != e[name]).sum()) for a, e in zip(actual, expected, strict=True) for name in e
    )


def losses(whole: Figures, less: Figures | str, setting: str) -> Iterator[str]:
    """Yield the figures that are worse in a build without a step."""
    if isinstance(less, str):
        yield "refused without it"
        return
    if setting == "c float" and less.decibels < WRONG_DB <= whole.decibels:
        yield f"wrong without it ({less.decibels:.1f} dB)"
    elif setting != "c float" and whole.decibels - less.decibels >= MIN_LOSS_DB:
        yield f"{whole.decibels:.1f} dB, {less.decibels:.1f} dB without it"
    if whole.costs["VTA cycles"] > 0 == less.costs["VTA cycles"]:
        yield "no layer runs on VTA without it"
    for name, cost in whole.costs.items():
        if less.costs[name] > cost * (1 + MIN_LOSS) + 0.5:
            yield f"{cost:,.0f} {name}, {less.costs[name]:,.0f} without it"


@dataclass
class Table:
    """The figures of all builds with all passes."""

    networks: dict[str, Network]
    whole: dict[tuple[str, str], Figures] = field(default_factory=dict[tuple[str, str], Figures])
    changing: dict[str, list[tuple[str, str]]] = field(
        default_factory=dict[str, list[tuple[str, str]]]
    )

    def build(self) -> None:
        for name, network in self.networks.items():
            for setting in (*SETTINGS, *SPECIAL.get(name, ())):
                steps = Steps()
                found = figures(network, setting, steps)
                if isinstance(found, str):
                    print(f"{name}, {setting}: {found}", flush=True)
                    continue
                self.whole[name, setting] = found
                for step in steps.changing:
                    self.changing.setdefault(step, []).append((name, setting))

    def benefit(self, step: str) -> Benefit:
        """Return the first loss without a step."""
        places = self.changing[step]
        places = sorted(places, key=lambda place: place[0] != WITNESSES.get(step))
        for name, setting in places[:MAX_TRIES]:
            less = figures(self.networks[name], setting, Steps(step))
            for loss in losses(self.whole[name, setting], less, setting):
                return Benefit(len(places), len(self.whole), name, setting, loss)
        return Benefit(len(places), len(self.whole), "", "", "")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--steps", nargs="*", default=[])
    parser.add_argument("--write", action="store_true", help="store the table")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        table = Table({name: Network(name, Path(folder)) for name in chosen.networks})
        table.build()
        found: dict[str, Benefit] = {}
        for step in sorted(table.changing):
            if not chosen.steps or step in chosen.steps:
                found[step] = table.benefit(step)
                print(f"{step:40} {found[step].text()}", flush=True)
    if idle := [step for step, benefit in found.items() if not benefit.figure]:
        print("no network loses without:", ", ".join(idle))
    if chosen.write:
        is_whole = not chosen.steps and len(chosen.networks) == len(NETWORKS)
        stored = ({} if is_whole else benefits()) | found
        content = {step: stored[step].to_json() for step in sorted(stored)}
        BENEFITS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
