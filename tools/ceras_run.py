"""The command `ceras-run`: execute a model, IR text at any level, or a compiled folder."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.driver.run.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-run", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
