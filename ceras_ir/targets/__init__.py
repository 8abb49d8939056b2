"""
Define the protocol between the compiler and the targets; see `Target`.

The names in `__all__` are public: a target that uses only these names remains compatible.
"""

from ceras_ir.support.options import option
from ceras_ir.support.timeline import Timeline
from ceras_ir.targets.board_files import BoardSummary, board_field, read_fields
from ceras_ir.targets.capabilities import (
    MICROSECONDS,
    Accelerator,
    ArenaBuffer,
    Ceiling,
    Compiled,
    Cost,
    Emulated,
    Executable,
    GapRule,
    Manifest,
    NotEmulated,
    Prediction,
    Sample,
    Trace,
    takes_runs_only,
)
from ceras_ir.targets.protocol import (
    BYTE_WIDTHS,
    MEMORY,
    PLACED,
    PROCESSOR_ARITHMETIC,
    ROW_SPREAD,
    Arithmetic,
    Emission,
    Measurement,
    RunAction,
    Stage,
    Target,
    by_convention,
)

__all__ = [
    "BYTE_WIDTHS",
    "MEMORY",
    "MICROSECONDS",
    "PLACED",
    "PROCESSOR_ARITHMETIC",
    "ROW_SPREAD",
    "Accelerator",
    "ArenaBuffer",
    "Arithmetic",
    "BoardSummary",
    "Ceiling",
    "Compiled",
    "Cost",
    "Emission",
    "Emulated",
    "Executable",
    "GapRule",
    "Manifest",
    "Measurement",
    "NotEmulated",
    "Prediction",
    "RunAction",
    "Sample",
    "Stage",
    "Target",
    "Timeline",
    "Trace",
    "board_field",
    "by_convention",
    "option",
    "read_fields",
    "takes_runs_only",
]
