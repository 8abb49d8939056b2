"""List the commands of the core."""

from ceras_ir.command.entry_point import LOOK, USE, Command

opt = Command(
    "ceras-opt", "run passes over a module and print it", "ceras_ir.driver.opt.tool", LOOK
)
compile = Command(
    "ceras-compile",
    "compile a model into a folder that its target can run",
    "ceras_ir.driver.compile",
    USE,
)
run = Command(
    "ceras-run",
    "execute a model, IR text at any level, or a compiled folder",
    "ceras_ir.driver.run",
    USE,
)
verify = Command(
    "ceras-verify",
    "run each level and target on the same inputs and compare",
    "ceras_ir.driver.verify.tool",
    USE,
)
