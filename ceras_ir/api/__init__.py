"""
Offer the commands as functions and objects: `import ceras_ir as ceras`.

Options, stages, builds, verification and comparison are those of the commands.
"""

from ceras_ir.api.checks import Comparison, Verification, compare, verify
from ceras_ir.api.compiled import Compiled, open_compiled
from ceras_ir.api.lengths import ModelLengths, load_lengths
from ceras_ir.api.model import Model, load
from ceras_ir.api.presentation import CerasWarning
from ceras_ir.command.exit_status import InternalError
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.support.diagnostics import InputError, UnsupportedError, UsageError
from ceras_ir.targets.registry import target_names

__all__ = [
    "CerasWarning",
    "Comparison",
    "Compiled",
    "ImageOptions",
    "InputError",
    "InternalError",
    "Model",
    "ModelLengths",
    "UnsupportedError",
    "UsageError",
    "Verification",
    "compare",
    "load",
    "load_lengths",
    "open_compiled",
    "target_names",
    "verify",
]
