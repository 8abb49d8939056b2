"""
One training run from files to a file.

Put trained numbers into a module in the place of its constants.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from ceras_ir.command.exit_status import naming
from ceras_ir.command.output_files import write_file
from ceras_ir.dialects import graph
from ceras_ir.driver.target_options import model_target
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import input_names, main_function
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.workbench.retrain.networks import check_integers, model_bytes, student_of, teacher_of
from ceras_ir.workbench.training.examples import Examples, load_examples
from ceras_ir.workbench.training.settings import CHECKPOINT, HARD_SWISH, Settings
from ceras_ir.workbench.training.torch_network import TorchNetwork
from ceras_ir.workbench.training.trainer import Run, Stopped


def write_back(arrays: Mapping[graph.ConstantOp, NDArray[np.generic]]) -> None:
    """Replace each constant by one with these stored numbers, of the same type and name."""
    for constant, array in arrays.items():
        element = graph.element_of(constant.result)
        new = graph.ConstantOp.from_array(array, element, location=constant.location)
        Rewriter.replace_op(constant, new)


# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false


TOLERANCE = 1e-3
"""Of the greatest output: what torch's order of sums may differ from the interpreter's."""


def retrain(
    arguments: argparse.Namespace,
    settings: Settings,
    options: BuildOptions,
    data: str,
    validate: str | None,
) -> None:
    """Train, and write the model."""
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with naming(arguments.model):
        module = _read(arguments, arguments.model)
        teacher = _teacher(arguments)
        examples = load_examples(data, arguments.labels, network_inputs(main_function(module)))
        judged = None
        if validate is not None:
            inputs = network_inputs(main_function(module))
            judged = load_examples(validate, arguments.validate_labels, inputs)
        student = student_of(module, options)
        network = TorchNetwork(student.module, student.zeros)
    checkpoint = Path(f"{arguments.output}{CHECKPOINT}")
    training = Run(
        network,
        teacher,
        examples,
        judged,
        settings,
        _device(arguments.device),
        _name(arguments, settings, options, examples),
        checkpoint,
        arguments.label_output,
        _say,
    )
    _say(
        f"{len(examples)} examples, {sum(p.numel() for p in network.parameters()):,} weights and "
        f"biases, {student.share:.1%} of the weights held at zero"
    )
    if arguments.resume:
        training.resume()
    try:
        training.train()
    except Stopped:
        _say(f"stopped; {checkpoint} has all that was done: --resume goes on")
        raise
    found = _outputs(training)
    write_back(network.arrays())
    if options.is_quantized:
        check_integers(student.module)
    verify_module(student.module)
    _check(training, found, student.module, exact=options.is_quantized)
    write_file(arguments.output, model_bytes(student.module, options.title, model_target()()))
    checkpoint.unlink(missing_ok=True)
    best = training.progress
    if best.best is not None:
        _say(f"{arguments.output}: the weights behind epoch {best.best_epoch}, {best.best:.4f}")


def _read(arguments: argparse.Namespace, path: str):
    return read_network(path, batch=arguments.batch, shapes=dict(arguments.shape))


def _teacher(arguments: argparse.Namespace) -> TorchNetwork | None:
    """The network of `--teacher`, or the one that is trained, as it was before all changes."""
    if not arguments.soft:
        return None
    changed = arguments.prune is not None or arguments.int8 or arguments.silu == HARD_SWISH
    if arguments.teacher is None and not changed:
        raise UsageError("--soft compares with a dense network: add --teacher or --prune")
    path = arguments.teacher or arguments.model
    with naming(path):
        return TorchNetwork(teacher_of(_read(arguments, path)), {}).requires_grad_(False)


def _device(wanted: str) -> torch.device:
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no GPU")
    found = torch.cuda.is_available() if wanted == "auto" else wanted == "cuda"
    return torch.device("cuda" if found else "cpu")


def _name(
    arguments: argparse.Namespace, settings: Settings, options: BuildOptions, examples: Examples
) -> str:
    """What tells this run from others: model, examples and all that changes weights."""
    digest = sha256(repr((settings, options, arguments.label_output)).encode())
    for path in (arguments.model, arguments.teacher):
        digest.update(b"" if path is None else Path(path).read_bytes())
    for array in (*examples.inputs, *([] if examples.labels is None else [examples.labels])):
        digest.update(array.tobytes())
    return digest.hexdigest()


def _outputs(training: Run) -> dict[str, np.ndarray]:
    """What torch makes of the first example."""
    with torch.no_grad():
        inputs = [
            torch.from_numpy(np.ascontiguousarray(x[0])).to(training.device)
            for x in training.examples.inputs
        ]
        found, _ = training.network(inputs)
    return {name: value.cpu().numpy() for name, value in found.items()}


def _check(training: Run, found: dict[str, np.ndarray], module: ModuleOp, *, exact: bool) -> None:
    """Hold torch to the interpreter on the first example, by the module that is written."""
    sample = [x[0] for x in training.examples.inputs]
    names = input_names(main_function(module))
    expected = run(module, dict(zip(names, sample, strict=True)))
    for name, array in expected.items():
        values = found[name].reshape(array.shape)
        error = float(np.abs(values.astype(np.float64) - array.astype(np.float64)).max(initial=0))
        most = float(np.abs(array.astype(np.float64)).max(initial=1))
        # Behind integers there may be floats, whose functions differ in the last bits.
        if not error <= (1e-5 if exact else TOLERANCE) * max(most, 1.0):
            raise InputError(
                f"output '{name}' differs between torch and the interpreter by {error:.3g}: "
                "this is a bug; nothing was written"
            )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
