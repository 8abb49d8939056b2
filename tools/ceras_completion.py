"""The command `ceras-completion`: print the script that completes commands in a shell."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.workbench.completion.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-completion", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
