"""
Measure each improvement of `quantize` separately, and the loss if only this improvement is left
out.

    python benchmarks/quantization_ablation.py MODEL.onnx CALIBRATION.npz TEST.npz [--labels L.npz]
        [--extra 'silu=table16']

A line per variant has the columns of `quantization.py`. The baseline has a single scale per tensor
without clipping. The improvements are exponents with minimum squared error, per-channel scales of
activations and of weights, rounding of weights, zero points, and 16 bits. `--extra` specifies
options of `quantize` for all variants.
"""

from quantization import of_target, open_task, quantized, task_parser

from ceras_ir.transforms.quantization_options import NO_PASSES, OPTIONAL_PASSES

SQUARES = "least squares"
IMPROVEMENTS = {
    "scales of channels": {"equalize-channels"},
    "scales of rows": {"choose-row-exponents"},
    "rounding of weights": {"round-weights"},
    "zero points": {"choose-zero-points", "fit-inputs"},
    "16 bits": {"choose-precision"},
}


def options(chosen: set[str]) -> str:
    """Return the options of `quantize` for exactly these improvements."""
    passes = {step for name in chosen - {SQUARES} for step in IMPROVEMENTS[name]}
    recipe = ",".join(name for name in OPTIONAL_PASSES if name in passes) or NO_PASSES
    return f"recipe={recipe} observer={'mse' if SQUARES in chosen else 'minmax'}"


def variants() -> dict[str, str]:
    """Return the variants: title -> options of `quantize`."""
    names = (SQUARES, *IMPROVEMENTS)
    found = {"none": options(set())}
    found |= {f"only {name}": options({name}) for name in names}
    found["all"] = options(set(names))
    return found | {f"all but {name}": options(set(names) - {name}) for name in names}


def main() -> None:
    parser = task_parser(__doc__)
    parser.add_argument("--extra", default="")
    arguments = parser.parse_args()
    floats, samples, table = open_task(arguments)
    for title, text in variants().items():
        common = f"calibration={arguments.calibration} {arguments.extra}"
        module, seconds = quantized(floats, f"{common} {text}")
        table.show(title, of_target(module, samples), seconds)


if __name__ == "__main__":
    main()
