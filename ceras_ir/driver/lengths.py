"""Compile and run a network for several lengths of an input, on a command line."""

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ceras_ir.driver.model_options import read_model
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.targets.protocol import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ceras_ir.data.sample_stream import StreamedSamples
    from ceras_ir.data.samples import Samples
    from ceras_ir.network.artefacts import TensorInfo
    from ceras_ir.network.length_table import LengthTable
    from ceras_ir.network.lengths import Lengths
    from ceras_ir.pipeline.lengths import LengthModules
    from ceras_ir.pipeline.stages import BuildOptions
    from ceras_ir.targets.capabilities import Executable

    Execution = Callable[[Executable, Samples | StreamedSamples, Sequence[TensorInfo]], None]


def read_networks(
    arguments: argparse.Namespace, target: Target, lengths: "Lengths"
) -> "LengthModules":
    """
    Import the network on the command line at each of `lengths`. Raise an error for a target or an
    option that needs a single length.
    """
    from ceras_ir.pipeline.lengths import check_lengths, read_lengths

    check_lengths(target, lengths)
    for flag in ("bisect_passes", "at", "emulate"):
        if getattr(arguments, flag, None):
            shown = f"--{flag.replace('_', '-')}"
            raise UsageError(f"{shown} needs a single length: give a single shape in --shape")
    return read_lengths(lambda shapes: read_model(arguments, shapes=shapes), lengths)


def fitting_samples(paths: str, table: "LengthTable") -> "tuple[int, Samples | StreamedSamples]":
    """
    Return the index of the length in `table` that the samples in the files `paths` have, and the
    samples.
    """
    from ceras_ir.data.sample_stream import open_samples

    return table.first_fitting(partial(open_samples, paths))


def run_networks(
    networks: "LengthModules", options: "BuildOptions", inputs: str, execute: "Execution"
) -> None:
    """
    Run a network that was imported for several lengths of an input: choose the length that the
    samples in the files `inputs` have. The target determines whether the network is compiled or
    interpreted. `execute` receives the executable network, the samples and the outputs. Raise an
    `InputError` if the samples fit no length.
    """
    from ceras_ir.pipeline.lengths import build_lengths, quantize_lengths, table_of

    index, samples = fitting_samples(inputs, table_of(networks))
    if not options.target.compiles:
        options = options.resolved(networks.largest)
        quantize_lengths(networks, options)
        executable = options.target.interpret(networks.modules[index])
        assert executable is not None
        execute(executable, samples, table_of(networks).outputs[index])
        return
    with tempfile.TemporaryDirectory(prefix="ceras-run-") as name:
        folder = Path(name)
        built = build_lengths(networks, options)
        manifest = built.write(folder)
        outputs = table_of(networks).outputs[index]
        execute(options.target.open(folder, manifest), samples, outputs)
