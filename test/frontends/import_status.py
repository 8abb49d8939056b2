"""Import damaged files of any format, and return the exit status."""

from collections.abc import Callable
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.support.diagnostics import InputError


def import_status(import_file: Callable[[str], ModuleOp], path: Path) -> int:
    """
    Return 0 if the file is imported, and the network verifies, or the exit status of the refusal,
    whose message is a single line for each finding.
    """
    try:
        import_file(str(path)).verify()
    except InputError as error:
        assert "\n" not in str(error) or error.findings
        return error.exit_status
    return 0
