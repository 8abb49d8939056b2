"""What is said of a board that a target does not have."""

from collections.abc import Iterable

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.suggestions import did_you_mean


def unknown_board(target: str, name: str, known: Iterable[str], kind: str = ".toml") -> InputError:
    """That there is none called `name`, which are `known`, and that a file of a `kind` does too."""
    names = sorted(known)
    return InputError(
        f"target {target} has no board '{name}'{did_you_mean(name, names)} (boards: "
        f"{', '.join(names)}; or a {kind} file)"
    )
