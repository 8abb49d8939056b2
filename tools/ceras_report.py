"""The command `ceras-report`: show what was compiled as a page, or how two compiles differ."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.workbench.report.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-report", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
