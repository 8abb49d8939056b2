"""The command `ceras-compile`: compile a model into a folder that its target can run."""

from collections.abc import Sequence

from ceras_ir.command.entry_point import start

MODULE = "ceras_ir.driver.compile.tool"


def main(argv: Sequence[str] | None = None) -> int:
    return start("ceras-compile", MODULE, argv)


if __name__ == "__main__":
    raise SystemExit(main())
