"""A module at any level, run by the interpreter; in its arena if it has one."""

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.targets.execution import Array, Sample


class Interpreted:
    """A network that needs no compiler."""

    def __init__(self, module: ModuleOp):
        self.module = module

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        from ceras_ir.dialects.mem import arena_of
        from ceras_ir.interpreters.arena import run_in_arena
        from ceras_ir.interpreters.network import run
        from ceras_ir.network.function import main_function

        placed = arena_of(main_function(self.module)) is not None
        for sample in samples:
            yield (run_in_arena if placed else run)(self.module, sample)
