"""Make `python -m ceras_ir` the command `ceras`, for users without its folder in PATH."""

from ceras_ir.command.dispatch import main

if __name__ == "__main__":
    raise SystemExit(main(program="python -m ceras_ir"))
