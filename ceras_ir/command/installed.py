"""The commands that are installed, as the package's metadata lists them."""

from importlib.metadata import EntryPoint, distribution

PREFIX = "ceras-"


def commands() -> dict[str, EntryPoint]:
    """The installed commands by their names without prefix."""
    points = distribution("ceras-ir").entry_points.select(group="console_scripts")
    return {point.name.removeprefix(PREFIX): point for point in sorted(points)}
