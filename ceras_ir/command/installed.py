"""The commands that are installed, as the package's metadata lists them."""

from importlib.metadata import EntryPoint, distribution

from ceras_ir.support.extensions import without_deleted

PREFIX = "ceras-"


def commands() -> dict[str, EntryPoint]:
    """Return the installed commands by their names without prefix."""
    points = distribution("ceras-ir").entry_points.select(group="console_scripts")
    return {p.name.removeprefix(PREFIX): p for p in sorted(without_deleted(points))}
