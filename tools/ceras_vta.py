"""The command `ceras-vta`: measure a board with VTA and make its board file."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.backends.vta.calibration.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-vta", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
