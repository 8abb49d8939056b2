"""List the commands of the workbench. The modules are loaded on first use."""

from ceras_ir.command.entry_point import DEVELOP, LOOK, USE, Command

compare = Command(
    "ceras-compare",
    "measure the effect of quantization on each layer of a network",
    "ceras_ir.workbench.compare.tool",
    LOOK,
)
completion = Command(
    "ceras-completion",
    "print the script that completes commands in a shell",
    "ceras_ir.workbench.completion",
    USE,
)
explore = Command(
    "ceras-explore",
    "compile and evaluate a network with different options",
    "ceras_ir.workbench.explore.tool",
    USE,
)
lsp = Command(
    "ceras-lsp", "serve editors that show IR text", "ceras_ir.workbench.lsp.tool", DEVELOP
)
new = Command(
    "ceras-new",
    "write a pass, an operation, a target or a board, with a test",
    "ceras_ir.workbench.new.tool",
    DEVELOP,
)
plan = Command(
    "ceras-plan",
    "place buffers of given sizes and lifetimes in memory",
    "ceras_ir.workbench.plan",
    DEVELOP,
)
reduce = Command(
    "ceras-reduce",
    "find the smallest input for which a command still succeeds",
    "ceras_ir.workbench.reduce.tool",
    DEVELOP,
)
report = Command(
    "ceras-report",
    "show a compile as a page, or the differences of two compiles",
    "ceras_ir.workbench.report.tool",
    LOOK,
)
retrain = Command(
    "ceras-retrain",
    "train a network further; zeros remain zero",
    "ceras_ir.workbench.training.tool",
    USE,
)
