"""Run the network of a text as it is, at whatever level it is, on one made-up input."""

from time import perf_counter

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.samples import Array
from ceras_ir.data.synthetic_samples import synthetic_samples
from ceras_ir.dialects.mem import arena_of
from ceras_ir.interpreters.network import run, run_in_arena
from ceras_ir.network.function import main_function

SEED = 0


def run_level(module: ModuleOp) -> str:
    """What comes out, in a line per output; memory is used as it was planned."""
    main = main_function(module)
    (sample,) = synthetic_samples(main, 1, SEED)
    start = perf_counter()
    runner = run_in_arena if arena_of(main) is not None else run
    outputs = runner(module, sample)
    taken = 1000 * (perf_counter() - start)
    lines = [f"{name}: {_summary(array)}" for name, array in outputs.items()]
    return "\n".join([*lines, f"one made-up input (seed {SEED}), interpreted in {taken:.0f} ms"])


def _summary(array: Array) -> str:
    shape = "x".join(map(str, array.shape)) or "scalar"
    if not array.size:
        return f"{array.dtype}[{shape}], empty"
    low, high, mean = (float(f(array)) for f in (_least, _greatest, _mean))
    return f"{array.dtype}[{shape}] in [{low:.6g}, {high:.6g}], mean {mean:.6g}"


def _least(array: Array) -> float:
    return float(array.astype(float).min())


def _greatest(array: Array) -> float:
    return float(array.astype(float).max())


def _mean(array: Array) -> float:
    return float(array.astype(float).mean())
