"""Make `python -m ceras_ir` the command `ceras`, for users without its folder in PATH."""

import sys

if __name__ == "__main__":
    # `python -m` searches the current folder first, which can have a file such as `struct.py`.
    if not sys.flags.safe_path:
        del sys.path[0]

    from ceras_ir.command.dispatch import main

    raise SystemExit(main(program="python -m ceras_ir"))
