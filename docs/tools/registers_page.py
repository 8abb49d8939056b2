"""Print docs/nnet-registers.md: the registers of the nnet circuits."""

from ceras_ir.backends.nnet.circuits import register_table

HEAD = """# Registers of the nnet circuits

The registers are AXI4-Lite words of 32 bits. `hdl/layer_registers.sv` lists them; this page,
`registers.h` of the engine and the checks of the core are generated from it. The engine refuses a
layer with a value outside the limits of a register, and the core rejects it (`status`).
[nnet-circuits.md](nnet-circuits.md) explains their use, and [nnet-board.md](nnet-board.md) the
access from Linux.

Registers reset to 0, except `control` (0xc) and the parameters of the core. Writes honour byte
strobes. The response is SLVERR for words without a register, for writes of read-only registers, and
for a start or a write of `queue_*` and of the layer while the core is busy.

"""


def registers_page() -> str:
    """Return the page."""
    return HEAD + register_table()
