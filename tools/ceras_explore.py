"""The command `ceras-explore`: compile and judge a network in many ways."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.workbench.explore.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-explore", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
