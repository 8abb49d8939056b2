"""The command `ceras-reduce`: find the smallest input for which a command still succeeds."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.workbench.reduce.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-reduce", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
