"""The command `ceras-compare`."""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    from ceras_ir.driver.compare.tool import main

    return main(argv)


if __name__ == "__main__":
    raise SystemExit(main())
