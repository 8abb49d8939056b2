"""docs/nnet-registers.md: the registers of the nnet circuits."""

from ceras_ir.backends.nnet.circuits import register_table

HEAD = """# Registers of the nnet circuits

AXI4-Lite, words of 32 bits. `hdl/layer_registers.sv` lists them; this page and the engine's
`registers.h` are made of it. The engine refuses a layer whose number exceeds its register, by name.
[nnet-circuits.md](nnet-circuits.md) says what the circuits do with them,
[nnet-board.md](nnet-board.md) how Linux reaches them.

"""


def registers_page() -> str:
    """The page."""
    return HEAD + register_table()
