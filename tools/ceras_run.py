"""The command `ceras-run`: execute a model, IR text at any level, or a compiled folder."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-run", "ceras_ir.driver.run.tool", argv)


if __name__ == "__main__":
    raise SystemExit(main())
