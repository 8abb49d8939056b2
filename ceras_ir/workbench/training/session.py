"""
Run `ceras-retrain`: load the networks and the data, train, check the result and write the model.

The student is the network that is trained. The teacher is the dense network.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from ceras_ir.command.exit_status import naming
from ceras_ir.command.output_files import write_file
from ceras_ir.dialects import graph
from ceras_ir.driver.model_options import single_shapes
from ceras_ir.driver.target_options import model_target
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import input_names, main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import QUANTIZED, BuildOptions, graph_stages, run_stages
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import (
    Finding,
    InputError,
    UnsupportedError,
    UsageError,
    node_name,
)
from ceras_ir.support.user_files import read_bytes
from ceras_ir.targets.protocol import Stage, Target
from ceras_ir.transforms.quantization.accumulators import ProveAccumulatorsPass
from ceras_ir.transforms.quantization.analysis.qdq import carries_quantization
from ceras_ir.transforms.quantization.checks import CheckScalesPass
from ceras_ir.workbench.training.examples import Examples, load_examples
from ceras_ir.workbench.training.settings import CHECKPOINT, HARD_SWISH, Settings
from ceras_ir.workbench.training.torch_network import TorchNetwork
from ceras_ir.workbench.training.trainer import Stopped, TrainingRun

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false


@dataclass(frozen=True)
class Student:
    """The network that is trained, and the weights that must remain zero."""

    module: ModuleOp
    zeros: Mapping[str, NDArray[np.bool_]]
    """Masks of float layers, by layer name; True for a weight that remains zero."""

    @property
    def share(self) -> float:
        """The fraction of weights that remain zero."""
        held = sum(int(mask.sum()) for mask in self.zeros.values())
        return held / max(1, sum(mask.size for mask in self.zeros.values()))


def student_of(module: ModuleOp, options: BuildOptions) -> Student:
    """
    Fuse, prune and quantize `module`, the network to train, and record which weights are zero.
    """
    if not options.is_quantized and carries_quantization(module):
        ops = main_function(module).body.block.ops
        found = [op for op in ops if isinstance(op, graph.QuantizeOp)][:1]
        reason = "unsupported by retraining in float: the network has Q/DQ; add --int8"
        raise UnsupportedError([Finding(node_name(op), op.name, reason) for op in found])
    zeros: dict[str, NDArray[np.bool_]] = {}

    def note(stage: Stage, now: ModuleOp) -> None:
        if stage.level != QUANTIZED:
            zeros.update(_zeros(now))

    run_stages(load_context(), module, graph_stages(options), note)
    return Student(module, zeros)


def teacher_of(module: ModuleOp) -> ModuleOp:
    """
    Return the dense float network from which the student learns. It is fused as the student is, so
    that layers have equal names.
    """
    run_stages(load_context(), module, graph_stages(replace(BuildOptions(), quantize="none")))
    return module


def check_integers(module: ModuleOp) -> None:
    """
    Check again, for the trained weights, that scales are valid and that accumulators cannot
    overflow.
    """
    for each in (CheckScalesPass(), ProveAccumulatorsPass()):
        each.apply(load_context(), module)


def model_bytes(module: ModuleOp, title: str, target: Target) -> bytes:
    """Return the content of the model file that `target`, such as `onnx`, writes for `module`."""
    (artefact,) = target.emit(module, title).artefacts
    stream = BytesIO()
    artefact.write(stream)
    return stream.getvalue()


def _zeros(module: ModuleOp) -> dict[str, NDArray[np.bool_]]:
    found: dict[str, NDArray[np.bool_]] = {}
    for op in main_function(module).body.block.ops:
        if isinstance(op, graph.LinearOperation):
            array = graph.constant_array(op.weights)
            if array is not None and array.dtype.kind == "f":
                found[node_name(op)] = array == 0
    return found


def write_back(arrays: Mapping[graph.ConstantOp, NDArray[np.generic]]) -> None:
    """Replace each constant by the trained array of stored elements. Type and name remain."""
    for constant, array in arrays.items():
        element = graph.element_of(constant.result)
        new = graph.ConstantOp.from_array(array, element, location=constant.location)
        Rewriter.replace_op(constant, new)


MAX_FLOAT_ERROR = 1e-3
"""The maximum difference between torch and the interpreter, relative to the largest output."""


def retrain(
    arguments: argparse.Namespace,
    settings: Settings,
    options: BuildOptions,
    data: str,
    validate: str | None,
) -> None:
    """
    Train the network on the command line on `data`, and write the model file. `validate` is data
    for early stopping, or `None`.
    """
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with naming(arguments.model):
        module = _read(arguments, arguments.model)
        teacher = _teacher(arguments)
        examples = load_examples(data, arguments.labels, network_inputs(main_function(module)))
        validation = None
        if validate is not None:
            inputs = network_inputs(main_function(module))
            validation = load_examples(validate, arguments.validate_labels, inputs)
        student = student_of(module, options)
        network = TorchNetwork(student.module, student.zeros)
    checkpoint = Path(f"{arguments.output}{CHECKPOINT}")
    training = TrainingRun(
        network,
        teacher,
        examples,
        validation,
        settings,
        _device(arguments.device),
        _name(arguments, settings, options, examples),
        checkpoint,
        arguments.label_output,
        _say,
    )
    _say(
        f"{len(examples)} examples, {sum(p.numel() for p in network.parameters()):,} weights and "
        f"biases, {student.share:.1%} of the weights remain zero"
    )
    if arguments.resume:
        training.resume()
    try:
        training.train()
    except Stopped:
        _say(f"stopped; {checkpoint} has the progress: continue with --resume")
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
        _say(f"{arguments.output}: the weights after epoch {best.best_epoch}, {best.best:.4f}")


def _read(arguments: argparse.Namespace, path: str):
    return read_network(path, batch=arguments.batch, shapes=single_shapes(arguments))


def _teacher(arguments: argparse.Namespace) -> TorchNetwork | None:
    # The network of --teacher, or the trained network before all changes.
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
        raise UsageError("--device cuda: torch finds no GPU; use --device cpu")
    found = torch.cuda.is_available() if wanted == "auto" else wanted == "cuda"
    return torch.device("cuda" if found else "cpu")


def _name(
    arguments: argparse.Namespace, settings: Settings, options: BuildOptions, examples: Examples
) -> str:
    # A digest of the model, the examples and all options that influence weights.
    digest = sha256(repr((settings, options, arguments.label_output)).encode())
    for path in (arguments.model, arguments.teacher):
        digest.update(b"" if path is None else read_bytes(path))
    for array in (*examples.inputs, *([] if examples.labels is None else [examples.labels])):
        digest.update(array.tobytes())
    return digest.hexdigest()


def _outputs(training: TrainingRun) -> dict[str, np.ndarray]:
    # The outputs of torch for the first example.
    with torch.no_grad():
        inputs = [
            torch.from_numpy(np.ascontiguousarray(x[0])).to(training.device)
            for x in training.examples.inputs
        ]
        found, _ = training.network(inputs)
    return {name: value.cpu().numpy() for name, value in found.items()}


def _check(
    training: TrainingRun, found: dict[str, np.ndarray], module: ModuleOp, *, exact: bool
) -> None:
    # Compare torch and the interpreter on the first example, with the module that is written.
    sample = [x[0] for x in training.examples.inputs]
    names = input_names(main_function(module))
    expected = run(module, dict(zip(names, sample, strict=True)))
    for name, array in expected.items():
        values = found[name].reshape(array.shape)
        error = float(np.abs(values.astype(np.float64) - array.astype(np.float64)).max(initial=0))
        largest = float(np.abs(array.astype(np.float64)).max(initial=1))
        # Float operations after the integers may differ in the last bits.
        if not error <= (1e-5 if exact else MAX_FLOAT_ERROR) * max(largest, 1.0):
            raise InputError(
                f"output '{name}' differs between torch and the interpreter by {error:.3g}: "
                "this is a bug; nothing was written"
            )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
