"""The command `ceras-lsp`: serve editors that show IR text."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.workbench.lsp.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-lsp", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
