"""The command `ceras-explore`: compile and judge a network in many ways."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-explore", "ceras_ir.driver.explore.tool", argv)


if __name__ == "__main__":
    raise SystemExit(main())
