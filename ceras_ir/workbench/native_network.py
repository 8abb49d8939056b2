"""
A network at the quantized level, or in float, as a program of this machine, which can be sent.

It is compiled by the target that runs natively, whatever it was quantized for; every target gives
the same integers, which `ceras-verify` holds them to.
"""

import io
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.driver.target_options import native_target
from ceras_ir.network.artefacts import Artefact, TensorInfo
from ceras_ir.network.function import inputs_that_may_lack, main_function
from ceras_ir.pipeline.build import build_target, open_folder, read_manifest
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.support.content_cache import key_of
from ceras_ir.targets.capabilities import Compiled

KEPT = 4
"""Programs that a process has open."""


@dataclass(frozen=True)
class NativeNetwork:
    """The files of a compiled folder, by path."""

    key: str
    files: tuple[tuple[str, bytes], ...]
    lacking: frozenset[str]
    """Inputs that may have NaN."""

    def opened(self) -> "OpenNetwork":
        """Ready to run; compiled for this machine once in each process."""
        if self.key in _OPEN:
            _OPEN.move_to_end(self.key)
        else:
            _OPEN[self.key] = OpenNetwork(self)
            while len(_OPEN) > KEPT:
                _OPEN.popitem(last=False)
        return _OPEN[self.key]


class OpenNetwork:
    """A network in a folder of its own, which goes with it."""

    def __init__(self, network: NativeNetwork):
        self._folder = TemporaryDirectory(prefix="ceras-native-")
        place = Path(self._folder.name)
        for name, content in network.files:
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.machine: Compiled = open_folder(place)
        manifest = read_manifest(place)
        self.inputs: list[TensorInfo] = manifest.inputs
        self.outputs: list[TensorInfo] = manifest.outputs


_OPEN: OrderedDict[str, OpenNetwork] = OrderedDict()


def native_network(module: ModuleOp, options: BuildOptions) -> NativeNetwork:
    """`module`, fused and quantized already and consumed here, as a program."""
    native = native_target()().for_host()
    lacking = inputs_that_may_lack(main_function(module))
    build = build_target(module, replace(options, target=native, insertions=()))
    files = tuple(_contents(build.files()))
    key = key_of(*(part for name, data in files for part in (name, data)))
    return NativeNetwork(key, files, lacking)


def _contents(artefacts: list[Artefact]) -> Iterator[tuple[str, bytes]]:
    for artefact in artefacts:
        stream = io.BytesIO()
        artefact.write(stream)
        yield artefact.path, stream.getvalue()
