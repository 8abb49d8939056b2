"""
Portable C99: `model.h`, `model.c`, kernels, weights, `main.c` and a `Makefile`.

`emitter.emit` is the entry; `runner.CModel` compiles what it wrote and runs it. To add an
operation, write a printer in the module of its family, below `@prints` (`layer.py`).
"""
