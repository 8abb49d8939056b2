"""The command `ceras-verify`: run every level and every target on the same inputs and compare."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.driver.verify.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-verify", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
