"""Print docs/nnet-registers.md: the registers of the nnet circuits."""

from ceras_ir.backends.nnet.circuits import register_table

HEAD = """# Registers of the nnet circuits

The registers are AXI4-Lite words of 32 bits. `hdl/layer_registers.sv` lists them; this page and
`registers.h` of the engine are generated from it. The engine refuses a layer with a value that
exceeds a register. [nnet-circuits.md](nnet-circuits.md) explains their use, and
[nnet-board.md](nnet-board.md) the access from Linux.

"""


def registers_page() -> str:
    """Return the page."""
    return HEAD + register_table()
