"""The command `ceras-plan`: place buffers of given sizes and lifetimes in memory."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.workbench.plan.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-plan", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
