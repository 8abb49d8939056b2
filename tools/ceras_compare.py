"""The command `ceras-compare`: measure what quantization does to a network, layer by layer."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.workbench.compare.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-compare", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
