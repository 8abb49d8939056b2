"""The options that the target and its pass `allot-lanes` share; separate, so that it loads fast."""

from ceras_ir.support.options import option, options

DEFAULT = "zcu102"
"""The board of S5."""


@options
class ChipOptions:
    """The chip, and how much of it a circuit may use."""

    board: str = option(DEFAULT, metavar="NAME|FILE")
    """Compile for this chip: a built-in name or a .toml file."""
    dsp: int = option(0, metavar="N")
    """Use so many multipliers of the chip; 0, all."""
    ram18: int = option(0, metavar="N")
    """Use so many memories of 18 kbit; 0, all."""
