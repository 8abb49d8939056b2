"""Fuse, quantize, run and compile a network; each step returns a new network."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from typing import TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from ceras_ir.api import presentation
from ceras_ir.api.compiled import Compiled, compiled_of
from ceras_ir.api.presentation import diagnosed, pages_if_installed
from ceras_ir.api.samples import Data, SampleFiles, read_samples
from ceras_ir.command.output_files import open_output
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.data.samples import Array
from ceras_ir.driver.compile import remedied
from ceras_ir.driver.target_options import reference_target
from ceras_ir.frontends.exporters import exporter_of, import_exported
from ceras_ir.network.artefacts import TensorInfo, network_inputs, network_outputs
from ceras_ir.network.function import is_quantized, main_function
from ceras_ir.network.lengths import parse_shape
from ceras_ir.pipeline import report
from ceras_ir.pipeline.build import build, run_all
from ceras_ir.pipeline.context import load_context, load_universe
from ceras_ir.pipeline.flash_limit import within_flash
from ceras_ir.pipeline.instrumentation import PassRunner
from ceras_ir.pipeline.parsing import parse_text, prepared, read_network
from ceras_ir.pipeline.pass_options import (
    build_pipeline,
    keyword_parameters,
    keyword_values,
    listing,
    parse_pipeline,
    spell_pipeline,
    target_parameters,
    with_values,
)
from ceras_ir.pipeline.printing import print_module
from ceras_ir.pipeline.stages import BuildOptions, Insertion, graph_stages, run_stages
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import DoesNotFitError, InputError, UsageError
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import all_targets, find_target
from ceras_ir.transforms.quantization_options import check_recipe

Passes: TypeAlias = str | ModulePass | Iterable[str | ModulePass]
"""Pipelines in the syntax of `ceras-opt -p`, or passes."""

OMITTED_OPTIONS = ("calibration", "quantize", "prune")
"""The options of a build that are no keyword arguments; calibration data is a separate argument."""

QUANTIZATION = tuple(keyword_parameters(BuildOptions, OMITTED_OPTIONS))
"""The options of quantization, as parameters of functions."""


class Model:
    """
    A network at a level above the levels of a target. It is immutable: `fuse`, `quantize` and
    `apply` return another network.
    """

    def __init__(self, module: ModuleOp, title: str = "model"):
        """
        Copy `module`, which must have a function `main`. `title` names the network in messages and
        files.
        """
        self._init(module.clone(), BuildOptions(title=title))
        with diagnosed(title):
            verify_module(self._module)
            main_function(self._module)

    def _init(
        self, module: ModuleOp, options: BuildOptions, files: SampleFiles | None = None
    ) -> Model:
        self._module, self._options, self._files = module, options, files
        self._source = module
        """The network on which `quantize` was called, or the network itself."""
        self._chosen = options
        """The options with layers that `quantize` got by name; only a float network has them."""
        return self

    def _changed(self, module: ModuleOp, **options: object) -> Model:
        return Model.__new__(type(self))._init(
            module, replace(self._options, **options), self._files
        )

    @classmethod
    def parse(cls, text: str, title: str = "model") -> Model:
        """Parse the network in IR text, as `save` writes it."""
        with diagnosed(title):
            return cls(parse_text(load_context(load_universe()), text, title), title)

    # Properties.

    @property
    def title(self) -> str:
        """The name of the network in compiled files."""
        return self._options.title

    @property
    def options(self) -> BuildOptions:
        """The options of quantization and compilation."""
        return self._options

    @property
    def module(self) -> ModuleOp:
        """A copy of the IR, which may be changed."""
        return self._module.clone()

    @property
    def inputs(self) -> list[TensorInfo]:
        """The name, shape and type of each input."""
        return network_inputs(main_function(self._module))

    @property
    def outputs(self) -> list[TensorInfo]:
        """The name, shape and type of each output."""
        return network_outputs(main_function(self._module))

    @property
    def layers(self) -> list[report.LayerEntry]:
        """
        The operations that compute a value, in execution order, with their entries in a report.
        """
        return report.layers(self._module)

    @property
    def is_quantized(self) -> bool:
        """Whether any value is stored as quantized integers."""
        return is_quantized(main_function(self._module))

    # Steps that return another network, or results.

    def fuse(self) -> Model:
        """Fold batch normalization, and move activations and residuals into previous layers."""
        return self.apply("fuse")

    @listing(QUANTIZATION)
    def quantize(
        self,
        calibration: Data | None = None,
        *,
        target: str | None = None,
        board: str | None = None,
        images: ImageOptions | None = None,
        **options: object,
    ) -> Model:
        """
        Fuse the network, and quantize it for the arithmetic of `target` (default: of any target).
        `calibration` are samples: arrays, arrays by name, a generator of either, files or folders;
        the default is synthetic samples. `options` are the options of the commands and of the pass
        `quantize`, such as `silu="table"`; `in_float` is `--float`.
        """
        files, data = SampleFiles(), None
        with diagnosed(self.title), files.named():
            given = quantization_keywords(options, "quantize")
            if calibration is not None:
                data = files.paths(calibration, self.inputs, "calibration", images)
            chosen = Target() if target is None else target_of(target, board, {})
            quantize_options = replace(
                BuildOptions(chosen, "int8", calibration=data),
                title=self.title,
                prune=self._options.prune,
                insertions=self._options.insertions,
                **given,
            )
            quantize_options.check()
            if quantize_options.flash is not None:
                quantize_options = within_flash(self._module.clone, quantize_options)
            module = self._module.clone()
            run_stages(load_context(), module, graph_stages(quantize_options))
        applied = quantize_options.applied()
        quantized = Model.__new__(type(self))._init(module, applied, files)
        quantized._source, quantized._chosen = self._module, quantize_options
        return quantized

    def apply(self, *passes: Passes) -> Model:
        """Run passes in order; a pass is text like `"canonicalize,my-pass{x=1}"` or an object."""
        module = self._module.clone()
        with diagnosed(self.title):
            PassRunner().run(load_context(load_universe()), module, _passes(passes))
        return self._changed(module)

    @listing(target_parameters(all_targets(), ("board",)))
    def compile(
        self,
        target: str,
        *,
        board: str | None = None,
        at: Mapping[str, Passes] | None = None,
        **options: object,
    ) -> Compiled:
        """
        Compile for `target`. A network without `quantize` is quantized first if the target has only
        integers. `at` maps the name of a level to passes that run after it. Options are as for the
        target on the command line, such as `weights="file"`; in the signature, `...` is a default
        that depends on the target. If the network is too large for the board, the error names the
        smallest change after which it fits.
        """
        with diagnosed(self.title):
            chosen = replace(
                self._options,
                target=target_of(target, board, options),
                insertions=tuple(_insertion(*item) for item in (at or {}).items()),
            )
            chosen.check()
            start_time = time.monotonic()
            try:
                built = build(self._module.clone(), chosen).measure()
            except DoesNotFitError as error:
                seconds = time.monotonic() - start_time
                named = self._chosen
                remedy_options = replace(
                    chosen,
                    int16=named.int16,
                    float=named.float,
                    activation_bits=named.activation_bits,
                    weight_bits=named.weight_bits,
                )
                raise remedied(error, self._source.clone, remedy_options, seconds) from None
            return compiled_of(built, [] if self._files is None else [self._files])

    def run(self, inputs: Data, *, images: ImageOptions | None = None) -> dict[str, Array]:
        """
        Return the outputs by name for one or more samples, computed by the interpreter, which
        defines each operation bit for bit.
        """
        with diagnosed("inputs"):
            samples = read_samples(inputs, self.inputs, "inputs", images)
            executable = reference_target()().interpret(self._module)
            assert executable is not None
            return run_all(executable, samples, self.outputs)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the IR with the names of layers as text, which `load` accepts."""
        name = fspath(path)
        with diagnosed(name):
            if not name.endswith(".mlir"):
                raise UsageError("IR text needs a file name that ends in .mlir")
            with open_output(name) as stream:
                print_module(self._module, stream, debuginfo=True)

    # Presentation.

    def __repr__(self) -> str:
        kind = "quantized" if self.is_quantized else "float"
        signature = presentation.signature(self.inputs, self.outputs)
        return f"<ceras_ir.Model '{self.title}', {kind}: {len(self.layers)} layers, {signature}>"

    def __str__(self) -> str:
        """Return the IR with large constants elided."""
        return presentation.text_of(self._module).rstrip()

    def _repr_html_(self) -> str:
        entries = [layer.to_json() for layer in self.layers]
        if len({entry["device"] for entry in entries}) < 2:
            entries = [{k: v for k, v in entry.items() if k != "device"} for entry in entries]
        pages = pages_if_installed()
        return presentation.joined(
            [
                presentation.paragraph(repr(self)),
                presentation.layers(entries),
                presentation.folded("graph", None if pages is None else pages.graph(self._module)),
                presentation.folded("IR, constants elided", presentation.ir(self._module)),
            ]
        )


def load(
    network: object,
    example_inputs: Sequence[object] | None = None,
    *,
    batch: int = 1,
    shapes: Mapping[str, str | Sequence[int]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    states: Mapping[str, str] | None = None,
) -> Model:
    """
    Load a network: the path of an ONNX file or of IR text, a PyTorch module with a tuple of
    `example_inputs`, or a Keras model. A symbolic batch dimension becomes `batch`; inputs in
    `shapes` get these shapes, inputs in `values` become constants, and inputs in `states` receive
    the named output of the previous call. A shape is a sequence or a text as in `--shape`, such as
    `"1x3x0..480x0..640"` for the maximum of a value inside an ONNX model.
    """
    is_file = isinstance(network, str | PathLike)
    name = fspath(cast("str | PathLike[str]", network)) if is_file else type(network).__name__
    with diagnosed(name):
        if batch < 1:
            raise UsageError(f"batch must be at least 1, got {batch}")
        parsed = {key: parse_shape(key, shape) for key, shape in (shapes or {}).items()}
        if not is_file:
            return _exported(network, example_inputs, batch, parsed, values, states)
        if example_inputs is not None:
            raise UsageError("a file needs no example inputs: remove them")
        if os.path.isdir(name):
            raise InputError("a folder: open_compiled opens a compiled network", name)
        module = read_network(name, batch=batch, shapes=parsed, values=values, states=states)
        title = os.path.splitext(os.path.basename(name))[0] or "model"
        return Model(module, title)


def _exported(
    network: object,
    example_inputs: Sequence[object] | None,
    batch: int,
    shapes: Mapping[str, Sequence[int]] | None,
    values: Mapping[str, Sequence[float]] | None,
    states: Mapping[str, str] | None,
) -> Model:
    if (exporter := exporter_of(network)) is None:
        kind = type(network).__name__
        raise UsageError(
            f"expected the path of a model, a PyTorch module or a Keras model, got {kind}"
        )
    title = exporter.title(network)
    module = import_exported(
        exporter, network, example_inputs, batch=batch, shapes=shapes, values=values, name=title
    )
    return Model(prepared(module, values=values, states=states), title)


def target_of(name: str, board: str | None, options: Mapping[str, object]) -> Target:
    given = dict(options) if board is None else {**options, "board": board}
    return with_values(find_target(name), given)


def _passes(passes: Iterable[object]) -> list[ModulePass]:
    known = load_universe().all_passes
    found: list[ModulePass] = []
    for each in passes:
        if isinstance(each, str):
            found += build_pipeline(parse_pipeline(each), known)
        elif isinstance(each, ModulePass):
            found.append(each)
        elif isinstance(each, Iterable):
            found += _passes(cast("Iterable[object]", each))
        else:
            kind = type(each).__name__
            raise UsageError(f"expected pipelines as text, or passes, got {kind}")
    return found


def quantization_keywords(given: Mapping[str, object], owner: str) -> dict[str, object]:
    """
    Check the keyword arguments `given` of the function `owner`, and return the options of
    quantization among them by the field of `BuildOptions`. Raise a `UsageError` for other names or
    values.
    """
    found = keyword_values(BuildOptions, given, owner, OMITTED_OPTIONS)
    recipe = found.get("recipe", ())
    assert isa(recipe, tuple[str, ...])
    check_recipe(recipe, "recipe")
    return found


def _insertion(level: str, passes: Passes) -> Insertion:
    built = tuple(_passes([passes]))
    return Insertion(level, spell_pipeline(built), built)
