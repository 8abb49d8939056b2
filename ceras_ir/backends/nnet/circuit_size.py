"""What the circuits in SystemVerilog are built for, and the sources that they are built of."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

TOP = "nnet_core"
FIRST = "layer_registers.sv"
"""A package, which every reader of the sources wants to see before its users."""
SHARED = ("stream_fifo.sv",)
"""Modules of the library that the sparse pipelines are made of."""


@dataclass(frozen=True)
class CircuitSize:
    """Parameters of `hdl/nnet_core.sv`; the defaults are those of the module."""

    lanes: int = 16
    """Rows and columns of the array."""
    bus_bytes: int = 16
    line_bytes: int = 262144
    """Rows of the input on chip."""
    result_bytes: int = 65536
    """Results, and as much of the residual, in two halves."""
    paired: bool = True
    """Two products in one multiplier."""
    tables: int = 16
    """Function tables that the channels of a layer may have; none where it is 0."""

    def parameters(self) -> dict[str, int]:
        """By the names of the module."""
        return {
            "LANES": self.lanes,
            "BUS_BYTES": self.bus_bytes,
            "LINE_BYTES": self.line_bytes,
            "RESULT_BYTES": self.result_bytes,
            "PAIRED": int(self.paired),
            "TABLES": self.tables,
        }


DEFAULT = CircuitSize()


def package_source() -> Path:
    """The package that lists the registers."""
    return _backends() / "nnet" / "hdl" / FIRST


def circuit_sources() -> list[Path]:
    """The modules, the package of registers first."""
    own = sorted(package_source().parent.glob("*.sv"), key=lambda path: path.name != FIRST)
    return own + [_backends() / "dataflow" / "hdl" / name for name in SHARED]


def _backends() -> Path:
    return Path(str(files("ceras_ir"))) / "backends"
