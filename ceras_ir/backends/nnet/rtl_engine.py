"""Build programs that hold the circuits in SystemVerilog, simulated by Verilator."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ceras_ir.backends.nnet.circuit_size import TOP, CircuitSize, circuit_sources
from ceras_ir.backends.nnet.engine import SOURCES, core, hardware_part, runtime, shared_and_own
from ceras_ir.support.native import build_program, host_flags
from ceras_ir.support.verilator import SIMULATED, STANDARD, include_folder, verilate

RTL = Path(__file__).parent / "rtl"
SIMULATION = RTL / "simulation.cpp"
"""The one source that includes what Verilator makes."""
PURPOSE = "the nnet engine with its circuits in Verilog"


def build_engine(size: CircuitSize) -> Path:
    """`ceras_engine` that has the option --rtl."""
    return build_simulation("ceras_engine_rtl", sorted(SOURCES.glob("*.cpp")), size)


def build_simulation(name: str, sources: Sequence[Path], size: CircuitSize) -> Path:
    """
    The program `name` of `sources`, the circuits and the memory around them; headers beside a
    source are its own.
    """
    modules = circuit_sources()
    shared, own = shared_and_own(sources)
    own += [path for path in sorted(RTL.glob("*.cpp")) if path != SIMULATION]
    around = hardware_part([SIMULATION], {RTL})
    # What Verilator makes is not ours to warn about.
    quiet = [flag for flag in around.flags if not flag.startswith("-W")]
    around = replace(around, flags=[*quiet, f"-I{include_folder()}"], kept=False)
    parts = [core(), hardware_part(own, {RTL, *(path.parent for path in own)}), around]
    sizes = [f"-G{k}={v}" for k, v in size.parameters().items()]
    flags = [STANDARD, *SIMULATED, *host_flags(PURPOSE)]
    return build_program(
        name,
        PURPOSE,
        [*([runtime(shared)] if shared else []), *parts],
        lambda folder: verilate(TOP, modules, folder, flags, sizes, kept=True),
        [*(path.read_bytes() for path in modules), "".join(sizes).encode()],
    )
