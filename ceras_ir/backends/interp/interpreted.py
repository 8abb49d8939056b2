"""A module at any level, run by the interpreter; in its arena if it has one."""

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.targets.execution import Array, Sample


class Interpreted:
    """A network that needs no compiler."""

    def __init__(self, module: ModuleOp):
        self.module = module

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        from ceras_ir.interpreters.sequence import in_turn

        return in_turn(self.module, samples)
