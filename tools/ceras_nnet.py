"""The command `ceras-nnet`: look into nnet files: dump, check, diff."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.backends.nnet.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-nnet", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
