"""
Print portable C99: `model.h`, `model.c`, kernels, weights, `main.c` and a `Makefile`.

`emitter.emit` is the entry, and `runner.CModel` compiles and runs the files. A new operation needs
a printer in the module of similar operations, with the decorator `@prints` (`layer.py`).
"""
