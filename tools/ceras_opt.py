"""The command `ceras-opt`."""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    from ceras_ir.driver.opt.tool import main

    return main(argv)


if __name__ == "__main__":
    raise SystemExit(main())
