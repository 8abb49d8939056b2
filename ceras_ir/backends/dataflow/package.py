"""Read back what was compiled: the C of the host, and the circuit in a simulator."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.hints import isa

from ceras_ir.backends.c.compiled import CompiledC
from ceras_ir.backends.dataflow.blocks import Feature
from ceras_ir.backends.dataflow.emit import ENTRY
from ceras_ir.backends.dataflow.simulation import Simulator
from ceras_ir.command.output_folder import MANIFEST, is_inside
from ceras_ir.support.diagnostics import InputError
from ceras_ir.targets.execution import Manifest


class CircuitRunner:
    """The circuit of a compiled folder; the simulator is built at the first launch."""

    def __init__(self, folder: Path, manifest: Manifest, seed: int, stall: int):
        path, entry = str(folder / MANIFEST), manifest.content.get(ENTRY)
        if not isa(entry, dict[str, object]):
            raise InputError(f"has no entry '{ENTRY}'; compile again", path)
        name, ports = entry.get("folder"), [entry.get("input"), entry.get("output")]
        port_bytes, frames = entry.get("port_bytes"), entry.get("frames")
        if not isinstance(name, str) or not is_inside(folder, name):
            raise InputError(f"'folder' must name a folder inside, got {name!r}", path)
        if not isa(ports, list[list[int]]) or any(len(p) != 4 or min(p) < 0 for p in ports):
            raise InputError("'input' and 'output' are four numbers each", path)
        if not isinstance(port_bytes, int) or not isinstance(frames, int):
            raise InputError("'port_bytes' and 'frames' are numbers", path)
        if not 1 <= port_bytes <= 64 or frames < 1:
            raise InputError("'port_bytes' is in [1, 64] and 'frames' at least 1", path)
        self.folder, self.port_bytes, self.frames = folder / name, port_bytes, frames
        self.source, self.result = (_feature(port) for port in ports)
        self.places = [port[0] for port in ports]
        self.seed, self.stall = seed, stall
        self._simulator: Simulator | None = None

    def launch(self, number: int, memory: NDArray[np.uint8]) -> None:
        """Take the frames of one inference from `memory`, and put the results there."""
        if number:
            raise InputError(f"no launch {number}: a circuit is one pipeline", str(self.folder))
        source, result = self.source, self.result
        end = self.places[0] + self.frames * source.size
        if max(end, self.places[1] + self.frames * result.size) > len(memory):
            raise InputError("a port is outside of the host's memory", str(self.folder))
        if self._simulator is None:
            self._simulator = Simulator(self.folder, source, result, self.port_bytes)
        frames = memory[self.places[0] : end].view(np.int8)
        shape = (self.frames, source.rows, source.columns, source.channels)
        run = self._simulator.run(frames.reshape(shape), seed=self.seed, stall=self.stall)
        flat = run.frames.reshape(-1).view(np.uint8)
        memory[self.places[1] : self.places[1] + len(flat)] = flat


def _feature(port: list[int]) -> Feature:
    _, rows, columns, channels = port
    if min(rows, columns, channels) < 1:
        raise InputError("a port has at least one row, column and channel")
    return Feature(rows, channels, columns)


def open_circuit(folder: Path, manifest: Manifest, seed: int, stall: int) -> CompiledC:
    """The host's C with the circuit behind its launch."""
    runner = CircuitRunner(folder, manifest, seed, stall)
    return CompiledC(folder, manifest.inputs, manifest.outputs, runner.launch)
