"""
Count the bytes that a step of a decoder moves without computation, and the bytes that it reads.

    python benchmarks/decoder_caches.py [--small]

For each form of a cache that exporters write, in float and int8, on target c: the bytes of the
caches; the bytes that concatenations, slices, transposes, selections, updates and the exchange of
states write in each call, without and with `update-states` and `read-states`; and the bytes of
weights and caches, which a call reads. `benchmarks/peers.py --rows "decoder step"` measures times.
The large networks have 27 M weights and 256 rows; `--small` counts a layer of 32 channels.
"""

import argparse
import io
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path

import numpy as np
from decoder_networks import FORMS, LARGE, Form, decoder, states, steps
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ceras_ir.backends.c.program import Program
from ceras_ir.backends.c.target import CTarget
from ceras_ir.dialects import graph
from ceras_ir.network.function import declare_states
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import load_context, load_module
from ceras_ir.pipeline.stages import BuildOptions, Quantize
from ceras_ir.transforms.memory.liveness import byte_size
from ceras_ir.transforms.pass_kinds import AROUND

MOVING = (
    graph.ConcatOp,
    graph.GatherOp,
    graph.PutOp,
    graph.ReshapeOp,
    graph.SelectOp,
    graph.SliceOp,
    graph.TakeOp,
    graph.TransposeOp,
)
PASSES = "update-states", "read-states"
FORMATS: tuple[Quantize, ...] = ("none", "int8")


def moved_by(program: Program, op: Operation) -> int:
    """Return the bytes that an operation writes without computation."""
    there = program.operands_in_place(op)
    if isinstance(op, graph.UpdateOp):
        is_row = op.input in there and (op.position is not None or op.result in program.rings)
        return byte_size(op.rows if is_row else op.result)
    if isinstance(op, graph.ConcatOp):
        return sum(byte_size(value) for value in op.inputs if value not in there)
    return byte_size(op.results[0]) if isinstance(op, MOVING) and not there else 0


def moved(program: Program) -> int:
    """Return the bytes that a call moves, the exchange of states included."""
    kept = sum(byte_size(s.state.argument) for s in program.states if s.is_copied)
    return kept + sum(moved_by(program, op) for op in program.steps)


def built(module: ModuleOp, options: BuildOptions, *, in_place: bool) -> Program:
    def step(name: str, _: ModuleOp, run: Callable[[], None]) -> None:
        if in_place or name not in PASSES:
            run()

    token = AROUND.set(step)
    try:
        with redirect_stderr(io.StringIO()):
            return Program.of(build(module, options).module)
    finally:
        AROUND.reset(token)


def row(form: Form, quantize: Quantize, sizes: dict[str, int], folder: Path) -> list[str]:
    layers, rows, words = (sizes[name] for name in ("layers", "rows", "words"))
    model, data = folder / "model.onnx", folder / "data.npz"
    model.write_bytes(decoder(form, **sizes).SerializeToString())
    samples = steps(form, 8, rows, words)
    arrays = {name: np.stack([s[name] for s in samples]) for name in samples[0]}
    np.savez(data, allow_pickle=False, **arrays)
    counts: list[int] = []
    calibration = None if quantize == "none" else str(data)
    options = BuildOptions(CTarget(weights="file"), quantize, calibration=calibration)
    for in_place in (False, True):
        module = load_module(load_context(), str(model))
        declare_states(module, states(layers))
        program = built(module, options, in_place=in_place)
        counts.append(moved(program))
    caches = sum(byte_size(s.state.argument) for s in program.states)
    products = (op for op in program.steps if isinstance(op, graph.LinearOperation))
    weights = sum(
        byte_size(op.weights) for op in products if isinstance(op.weights.owner, graph.ConstantOp)
    )
    kind = "float" if quantize == "none" else quantize
    return [form, kind, *(f"{number:,}" for number in (caches, *counts, weights + caches))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[1])
    parser.add_argument("--small", action="store_true", help="a layer of 32 channels")
    small = {"layers": 1, "width": 32, "heads": 2, "rows": 8, "words": 40}
    sizes = small if parser.parse_args().small else LARGE
    print(
        "| form | format | caches | moved before | moved | read |",
        "|---|---|---|---|---|---|",
        sep="\n",
    )
    for form in FORMS:
        for quantize in FORMATS:
            with tempfile.TemporaryDirectory() as folder:
                print("|", " | ".join(row(form, quantize, sizes, Path(folder))), "|", flush=True)


if __name__ == "__main__":
    main()
