"""Quantize, run and compile a network at several lengths of an input."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.api.compiled import Compiled, compiled_of
from ceras_ir.api.model import QUANTIZATION, Model, quantization_keywords, target_of
from ceras_ir.api.presentation import diagnosed, signature
from ceras_ir.api.samples import Data, SampleFiles, read_samples, reusable
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.data.samples import Array
from ceras_ir.driver.target_options import reference_target
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.network.lengths import Lengths, Shape, lengths_of, parse_shapes
from ceras_ir.pipeline.build import run_all
from ceras_ir.pipeline.lengths import (
    LengthModules,
    build_lengths,
    quantize_lengths,
    read_lengths,
    samples_of_largest,
    table_of,
)
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.pass_options import listing, target_parameters
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import all_targets


class ModelLengths:
    """
    A network that is compiled for several lengths of an input, such as 32, 64 and 96 steps. It is
    immutable: `quantize` returns another network.
    """

    def __init__(
        self,
        lengths: Lengths,
        modules: Sequence[ModuleOp],
        options: BuildOptions,
        files: SampleFiles | None = None,
    ):
        """
        Keep the modules of the network, one for each length in ascending order. `load_lengths`
        calls this.
        """
        self._networks = LengthModules(lengths, list(modules))
        self._options, self._files = options, files

    @property
    def title(self) -> str:
        """The name of the network in compiled files."""
        return self._options.title

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of the input, in ascending order."""
        return self._networks.lengths.values

    @property
    def inputs(self) -> Sequence[TensorInfo]:
        """The name, shape and type of each input, at the largest length."""
        return table_of(self._networks).inputs[-1]

    @property
    def outputs(self) -> Sequence[TensorInfo]:
        """The name, shape and type of each output, at the largest length."""
        return table_of(self._networks).outputs[-1]

    def at(self, length: int) -> Model:
        """Return the network at one of the lengths. Raise a `UsageError` for any other length."""
        if length not in self.lengths:
            raise UsageError(f"no length {length}: there are {self._networks.lengths.text}")
        return Model(self._networks.modules[self.lengths.index(length)], self.title)

    @listing(QUANTIZATION)
    def quantize(
        self,
        calibration: Data | None = None,
        *,
        target: str | None = None,
        board: str | None = None,
        images: ImageOptions | None = None,
        **options: object,
    ) -> ModelLengths:
        """
        Quantize the network with the same scales for all lengths. The options are as in
        `Model.quantize`; samples for `calibration` have the largest length.
        """
        files, data = SampleFiles(), None
        with diagnosed(self.title), files.named():
            given = quantization_keywords(options, "quantize")
            if calibration is not None:
                with samples_of_largest(self._networks):
                    data = files.paths(calibration, self.inputs, "calibration", images)
            chosen = Target() if target is None else target_of(target, board, {})
            scheme = replace(
                BuildOptions(chosen, "int8", calibration=data), title=self.title, **given
            )
            scheme.check()
            networks = self._copied()
            quantize_lengths(networks, scheme)
        return ModelLengths(networks.lengths, networks.modules, scheme.applied(), files)

    @listing(target_parameters(all_targets(), ("board",)))
    def compile(self, target: str, *, board: str | None = None, **options: object) -> Compiled:
        """
        Compile a single program for all lengths. The options are as for the target on the command
        line; a target that does not support several lengths raises an error.
        """
        with diagnosed(self.title):
            chosen = replace(self._options, target=target_of(target, board, options))
            chosen.check()
            built = build_lengths(self._copied(), chosen).measure()
            return compiled_of(built, [] if self._files is None else [self._files])

    def run(self, inputs: Data, *, images: ImageOptions | None = None) -> dict[str, Array]:
        """
        Return the outputs by name for samples that all have the same one of the lengths, computed
        by the interpreter.
        """
        with diagnosed("inputs"):
            given, table = reusable(inputs), table_of(self._networks)
            index, samples = table.first_fitting(
                lambda tensors: read_samples(given, tensors, "inputs", images)
            )
            executable = reference_target()().interpret(self._networks.modules[index])
            assert executable is not None
            return run_all(executable, samples, table.outputs[index])

    def _copied(self) -> LengthModules:
        modules = [module.clone() for module in self._networks.modules]
        return LengthModules(self._networks.lengths, modules)

    def __repr__(self) -> str:
        text = signature(list(self.inputs), list(self.outputs))
        return f"<ceras_ir.ModelLengths '{self.title}', {self._networks.lengths.text}: {text}>"


def load_lengths(
    network: str | PathLike[str],
    shapes: Mapping[str, str | Iterable[Sequence[int]]],
    *,
    batch: int = 1,
    values: Mapping[str, Sequence[float]] | None = None,
    states: Mapping[str, str] | None = None,
) -> ModelLengths:
    """
    Load the network in an ONNX file or IR text at several lengths of an input. `shapes` maps this
    input to text as in `--shape`, such as `"1x32..512:32"` (from 32 to 512 in steps of 32), or to a
    list of shapes. Other arguments are as in `load`.
    """
    name = fspath(network)
    with diagnosed(name):
        lengths = lengths_of({key: _shapes(key, value) for key, value in shapes.items()})
        if lengths is None:
            raise UsageError("expected several shapes of an input; use load for a single shape")
        networks = read_lengths(
            lambda chosen: read_network(
                name, batch=batch, shapes=chosen, values=values, states=states
            ),
            lengths,
        )
        title = os.path.splitext(os.path.basename(name))[0] or "model"
        return ModelLengths(lengths, networks.modules, BuildOptions(title=title))


def _shapes(name: str, given: str | Iterable[Sequence[int]]) -> tuple[Shape, ...]:
    text = given if isinstance(given, str) else ",".join("x".join(map(str, s)) for s in given)
    try:
        return parse_shapes(text)
    except ValueError as error:
        raise UsageError(f"shapes of '{name}': {error}") from None
