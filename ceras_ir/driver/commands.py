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
boards = Command(
    "ceras-boards", "list the boards of all targets", "ceras_ir.driver.lists.boards", LOOK
)
operators = Command(
    "ceras-operators",
    "list the supported ONNX operators",
    "ceras_ir.driver.lists.operators",
    LOOK,
)
targets = Command(
    "ceras-targets",
    "list the targets and their arithmetic",
    "ceras_ir.driver.lists.targets",
    LOOK,
)
