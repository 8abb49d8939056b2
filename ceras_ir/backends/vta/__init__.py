"""Target vta: instruction streams for VTA, and the command that measures a board."""

from ceras_ir.command.entry_point import USE, Command

command = Command(
    "ceras-vta",
    "measure a board with VTA and compute a board file",
    "ceras_ir.backends.vta.execution.calibration",
    USE,
)
