"""Run, save, measure and display a compiled network, which is a folder of files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory

from xdsl.utils.hints import isa

from ceras_ir.api import presentation
from ceras_ir.api.presentation import PAGES, Pages, diagnosed, pages_if_installed
from ceras_ir.api.samples import Data, read_samples, reusable
from ceras_ir.command.output_files import REPORT, open_output
from ceras_ir.command.output_folder import open_folder
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.data.samples import Array
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.network.length_table import LengthTable
from ceras_ir.pipeline.build import Build, read_manifest, run_all
from ceras_ir.pipeline.build import open_folder as open_machine
from ceras_ir.pipeline.report import Entry, table
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.extensions import need_hook
from ceras_ir.support.user_files import read_text


class Compiled:
    """
    A compiled network, the result of `ceras-compile`: `run` executes it, `save` writes the files,
    `report` has the costs.
    """

    def __init__(self, folder: Path, build: Build | None = None, keep: Sequence[object] = ()):
        """
        Open the compiled network in `folder`. `build` is the compilation, if it took place in this
        process. `keep` are objects that must not be collected before this object, such as a
        temporary folder.
        """
        self._folder, self._build, self._references = folder, build, keep
        self.manifest = read_manifest(folder)
        """The descriptions of the files, and of the graph inputs and outputs."""
        self.report = _report(folder)
        """The content of `report.json`: `layers`, `totals` and more."""

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.manifest.target

    @property
    def inputs(self) -> list[TensorInfo]:
        """The name, shape and type of each input."""
        return self.manifest.inputs

    @property
    def outputs(self) -> list[TensorInfo]:
        """The name, shape and type of each output."""
        return self.manifest.outputs

    @property
    def files(self) -> list[str]:
        """The files that `save` writes."""
        return sorted(f.relative_to(self._folder).as_posix() for f in self._paths())

    def read(self, name: str) -> bytes:
        """Return the bytes of the file `name`, one of `files`."""
        with diagnosed(name):
            if name not in self.files:
                raise InputError(f"no such file; the folder has {', '.join(self.files)}", name)
            return (self._folder / name).read_bytes()

    @property
    def totals(self) -> Entry:
        """
        The totals of the report by name: bytes of memory, multiplications, and modelled cycles.
        """
        totals = self.report.get("totals")
        return totals if isa(totals, Entry) else {}

    @property
    def layers(self) -> list[Entry]:
        """The entry of each layer in the report, with name, operation and costs."""
        layers = self.report.get("layers")
        return layers if isa(layers, list[Entry]) else []

    def run(self, inputs: Data, *, images: ImageOptions | None = None) -> dict[str, Array]:
        """
        Return the outputs by name for one or more samples, computed by the compiled code: C is
        compiled and run on this machine, accelerators run in their engine or simulator.
        """
        with diagnosed("inputs"):
            tensors = self.inputs, self.outputs
            table = LengthTable.from_manifest(self.manifest.content, *tensors)
            if table is None:
                samples = read_samples(inputs, self.inputs, "inputs", images)
                return run_all(self._machine, samples, self.outputs)
            given = reusable(inputs)
            index, samples = table.first_fitting(
                lambda at: read_samples(given, at, "inputs", images)
            )
            return run_all(self._machine, samples, table.outputs[index])

    @cached_property
    def _machine(self):
        return open_machine(self._folder)

    def save(self, folder: str | PathLike[str], *, force: bool = False) -> Path:
        """
        Write all files to `folder`, or no file if that fails. Raise an error if `folder` has files
        but no manifest of the compiler, unless `force`.
        """
        with diagnosed(fspath(folder)), open_folder(fspath(folder), force=force) as staging:
            for path in self._paths():
                copy = staging / path.relative_to(self._folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
        return Path(folder)

    def save_page(self, path: str | PathLike[str]) -> None:
        """Write the page of `ceras-report`: an HTML file about the compiled network."""
        with diagnosed(fspath(path)), open_output(fspath(path)) as stream:
            stream.write(
                need_hook(PAGES, Pages, "save_page")().page(self.report, self._title, self.target)
            )

    @property
    def _title(self) -> str:
        return self._folder.name if self._build is None else self._build.options.title

    def _paths(self) -> list[Path]:
        listed = self.manifest.content["files"]
        assert isa(listed, dict[str, object])
        names = sorted({*listed, REPORT, "manifest.json"})
        return [path for name in names if (path := self._folder / name).is_file()]

    def __repr__(self) -> str:
        signature = presentation.signature(self.inputs, self.outputs)
        return f"<ceras_ir.Compiled for {self.target}: {len(self.files)} files, {signature}>"

    def __str__(self) -> str:
        """Return the table of layers and costs that `ceras-compile` prints."""
        emission = None if self._build is None else self._build.emission
        return table(self.report, self.target, emission)

    def _repr_html_(self) -> str:
        parts = [
            presentation.paragraph(repr(self)),
            presentation.totals(self.totals),
            presentation.layers(self.layers),
        ]
        if (drawn := pages_if_installed()) is not None:
            plan = drawn.memory(self.report, self._title, self.target)
            parts.append(presentation.folded("memory plan", plan))
        if self._build is not None:
            # A compiled folder that was opened has no IR.
            parts.append(
                presentation.folded("IR, constants elided", presentation.ir(self._build.module))
            )
        return presentation.joined(parts)


def compiled_of(build: Build, keep: Sequence[object]) -> Compiled:
    """
    Write the files of `build` into a temporary folder that is deleted together with the returned
    object, which also keeps references to the objects `keep`.
    """
    folder = TemporaryDirectory(prefix="ceras-compiled-")
    build.write(Path(folder.name))
    return Compiled(Path(folder.name), build, [folder, *keep])


def open_compiled(folder: str | PathLike[str]) -> Compiled:
    """Open a folder that `ceras-compile` or `Compiled.save` wrote."""
    with diagnosed(fspath(folder)):
        if not Path(folder).is_dir():
            raise InputError(
                "no such folder; expected a folder that ceras-compile or save wrote", fspath(folder)
            )
        return Compiled(Path(folder))


def _report(folder: Path) -> Entry:
    try:
        content: object = json.loads(read_text(folder / REPORT))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"not a readable report: {error}; compile again", str(folder / REPORT)
        ) from None
    if not isa(content, Entry):
        raise InputError("not a report; compile again", str(folder / REPORT))
    return content
