"""
Target arduino generates a sketch for a board, with the C of `backends/c`.

`machines.py` loads descriptions of boards, `costs.py` predicts flash and SRAM, `fit.py` refuses
networks that do not fit and lists remedies, and `emulator.py` builds and runs programs under qemu.
"""
