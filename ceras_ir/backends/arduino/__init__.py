"""
Networks on Arduino boards: the C of `backends/c` as a sketch, sized against the board.

`board.py` reads descriptions, `sizes.py` predicts flash and SRAM, `fit.py` refuses what does
not fit and names the ways out, `emulator.py` builds and runs it all under qemu.
"""
