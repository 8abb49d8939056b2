"""
What each improvement of `quantize` is worth: alone, and what is lost when it alone is left out.

    python benchmarks/quantization_ablation.py MODEL.onnx CALIBRATION.npz TEST.npz [--labels L.npz]
        [--extra 'silu=table16']

One line per variant, as of `quantization.py`. The start is one scale per tensor at which nothing
is clipped; improvements are exponents of least squared error, scales of channels, scales of rows,
rounding of weights, and correction of biases. `--extra` are options of `quantize` for all variants.
"""

import argparse
import logging
import time
from pathlib import Path

from quantization import Samples, Table, of_runtime, of_target
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.driver.context import load_context
from ceras_ir.driver.end_metrics import load_labels
from ceras_ir.driver.pass_options import build
from ceras_ir.driver.stages import read_network
from ceras_ir.samples import load_samples
from ceras_ir.transforms.fuse import FusePass
from ceras_ir.transforms.quantize import QuantizePass
from ceras_ir.transforms.recipes import RECIPES

SQUARES = "least squares"
IMPROVEMENTS = {
    "scales of channels": "equalize-channels",
    "scales of rows": "choose-row-exponents",
    "rounding of weights": "round-weights",
    "correction of biases": "correct-bias",
}


def options(chosen: set[str]) -> str:
    """What has `quantize` do these improvements and no others."""
    passes = {IMPROVEMENTS[name] for name in chosen - {SQUARES}}
    recipe = next(name for name, inside in RECIPES.items() if set(inside) == passes)
    return f"recipe={recipe} observer={'mse' if SQUARES in chosen else 'minmax'}"


def variants() -> dict[str, str]:
    """Title of a variant -> options of `quantize`."""
    names = (SQUARES, *IMPROVEMENTS)
    found = {"none": options(set())}
    found |= {f"only {name}": options({name}) for name in names}
    found["all"] = options(set(names))
    return found | {f"all but {name}": options(set(names) - {name}) for name in names}


def quantized(floats: ModuleOp, text: str) -> tuple[ModuleOp, float]:
    """A quantized copy, and the processor time that it took."""
    module, started = floats.clone(), time.process_time()
    build(QuantizePass, text).apply(load_context(), module)
    return module, time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("model", "calibration", "test"):
        parser.add_argument(name)
    parser.add_argument("--labels")
    parser.add_argument("--extra", default="")
    arguments = parser.parse_args()
    logging.disable()
    floats = read_network(arguments.model)
    samples: Samples = list(load_samples(arguments.test, floats))
    labels = None if arguments.labels is None else load_labels(arguments.labels, len(samples))
    table = Table(of_runtime(Path(arguments.model).read_bytes(), samples), labels)
    table.show("float", table.expected)
    FusePass().apply(load_context(), floats)
    for title, text in variants().items():
        common = f"calibration={arguments.calibration} {arguments.extra}"
        module, seconds = quantized(floats, f"{common} {text}")
        table.show(title, of_target(module, samples), seconds)


if __name__ == "__main__":
    main()
