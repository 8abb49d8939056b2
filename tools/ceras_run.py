"""The command `ceras-run` from a checkout; an installation has it on PATH."""

from ceras_ir.driver.commands import run as main

if __name__ == "__main__":
    raise SystemExit(main())
