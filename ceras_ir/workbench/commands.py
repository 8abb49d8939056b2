"""List the commands of the workbench. The modules are loaded on first use."""

from ceras_ir.command.entry_point import Command

compare = Command(
    "ceras-compare",
    "measure the effect of quantization on each layer of a network",
    "ceras_ir.workbench.compare.tool",
)
completion = Command(
    "ceras-completion",
    "print the script that completes commands in a shell",
    "ceras_ir.workbench.completion",
)
explore = Command(
    "ceras-explore",
    "compile and evaluate a network with different options",
    "ceras_ir.workbench.explore.tool",
)
lsp = Command("ceras-lsp", "serve editors that show IR text", "ceras_ir.workbench.lsp.tool")
plan = Command(
    "ceras-plan", "place buffers of given sizes and lifetimes in memory", "ceras_ir.workbench.plan"
)
reduce = Command(
    "ceras-reduce",
    "find the smallest input for which a command still succeeds",
    "ceras_ir.workbench.reduce.tool",
)
report = Command(
    "ceras-report",
    "show a compile as a page, or the differences of two compiles",
    "ceras_ir.workbench.report.tool",
)
retrain = Command(
    "ceras-retrain",
    "train a network further; zeros remain zero",
    "ceras_ir.workbench.training.tool",
)
