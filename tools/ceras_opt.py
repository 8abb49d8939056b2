"""The command `ceras-opt`: run passes over a module and print it."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.driver.opt.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-opt", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
