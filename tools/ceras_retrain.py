"""The command `ceras-retrain`: train a network further, with zeros held at zero."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.workbench.retrain.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-retrain", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
