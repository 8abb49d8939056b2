"""Build programs that hold the circuits in SystemVerilog, simulated by Verilator."""

from collections.abc import Sequence
from pathlib import Path

from ceras_ir.backends.nnet.circuit_size import TOP, CircuitSize, circuit_sources
from ceras_ir.backends.nnet.engine import FLAGS, SOURCES, made_headers, runtime, shared_and_own
from ceras_ir.support.native import Part, build_program, host_flags
from ceras_ir.support.verilator import include_folder, verilate

FOLDERS = [Path(__file__).parent / name for name in ("core", "rtl")]
PURPOSE = "the nnet engine with its circuits in Verilog"


def build_engine(size: CircuitSize) -> Path:
    """`ceras_engine` that has the option --rtl."""
    sources = [path for path in sorted(SOURCES.iterdir()) if path.suffix == ".cpp"]
    return build_simulation("ceras_engine_rtl", sources, size)


def build_simulation(name: str, sources: Sequence[Path], size: CircuitSize) -> Path:
    """
    The program `name` of `sources`, the circuits and the memory around them; headers beside a
    source are its own.
    """
    modules = circuit_sources()
    shared, own = shared_and_own(sources)
    harness = sorted(path for folder in FOLDERS for path in folder.glob("*.cpp"))
    folders = {SOURCES, *FOLDERS, *(path.parent for path in own)}
    headers = sorted(path for folder in folders for path in folder.glob("*.h"))
    # What Verilator makes is not ours to warn about.
    flags = [flag for flag in FLAGS if not flag.startswith("-W")]
    flags += ["-DCERAS_HARDWARE", "-pthread", *host_flags(PURPOSE)]
    flags += [f"-I{folder}" for folder in (SOURCES, *FOLDERS, include_folder())]
    sizes = [f"-G{k}={v}" for k, v in size.parameters().items()]
    return build_program(
        name,
        PURPOSE,
        [
            *([runtime(shared)] if shared else []),
            Part([*own, *harness], headers, flags, made_headers(), kept=False),
        ],
        lambda folder: verilate(TOP, modules, folder, flags, sizes, kept=True),
        [*(path.read_bytes() for path in modules), "".join(sizes).encode()],
    )
