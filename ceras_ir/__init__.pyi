"""The types of the Python API, which the package imports at first use."""

from ceras_ir.api import *  # noqa: F403

__all__: list[str]
