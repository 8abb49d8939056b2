"""
What must hold of a module between any two passes, and where it does not.

xDSL's own verification, which stops at the first error and does not say where, then the discardable
attributes and the dominance that it leaves out. All operations that fail are reported at once.
"""

from collections.abc import Iterator
from weakref import ref

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import VerifyException

from ceras_ir.command.exit_status import Diagnostic, SourceError, at_operation
from ceras_ir.pipeline.dominance import undominated_uses


def verify_module(module: ModuleOp) -> None:
    """Raise a `SourceError` that names every operation of `module` that is not valid."""
    if found := find_invalid(module):
        raise SourceError(found)


class Verification:
    """Verifies a module again and again, but only where it has changed."""

    def __init__(self) -> None:
        self._valid: list[tuple[object, ...]] | None = None

    def check(self, module: ModuleOp) -> None:
        """Raise a `SourceError` that names every operation of `module` that is not valid."""
        if found := self.find_invalid(module):
            raise SourceError(found)

    def find_invalid(self, module: ModuleOp) -> list[Diagnostic]:
        """What is not valid in `module`, by operation."""
        now = _contents(module)
        if now == self._valid:
            return []
        found = find_invalid(module)
        self._valid = None if found else now
        return found


def _contents(module: ModuleOp) -> list[tuple[object, ...]]:
    """
    All that verification looks at. The references are weak, so that constants which a pass
    replaces do not stay in memory until it ends; what is gone equals nothing that is there.
    """
    found: list[tuple[object, ...]] = []
    for op in module.walk():
        blocks = [block for region in op.regions for block in region.blocks]
        found.append(
            (
                ref(op),
                op.parent and ref(op.parent),
                (*map(ref, op.operands),),
                (*map(ref, op.successors),),
                (*op.properties, *map(ref, op.properties.values())),
                (*op.attributes, *map(ref, op.attributes.values())),
                (*(ref(result.type) for result in op.results),),
                (*((ref(block), *(ref(arg.type) for arg in block.args)) for block in blocks),),
            )
        )
    return found


def find_invalid(module: ModuleOp) -> list[Diagnostic]:
    """What is not valid in `module`, by operation."""
    try:
        module.verify()
    except Exception as error:
        found = list(_invalid_operations(module))
        if not found and not _means_invalid(error):
            raise
        return found or [Diagnostic(str(error))]
    # Not above: commands that verify nothing import no dialect.
    from ceras_ir.dialects.discardable import refusals

    found = [at_operation(op, text) for op in module.walk() for text in refusals(op)]
    found = found or list(_bad_states(module))
    return found or list(_bad_uses(module))


def _bad_states(module: ModuleOp) -> Iterator[Diagnostic]:
    from ceras_ir.network.states import state_refusals

    for op in module.ops:
        if isinstance(op, FuncOp) and op.arg_attrs is not None and not op.is_declaration:
            yield from (at_operation(op, text) for text in state_refusals(op))


def _means_invalid(error: Exception) -> bool:
    """Whether a verifier rejected the IR; xDSL's memref raises a plain `Exception` to say so."""
    return isinstance(error, VerifyException) or type(error) is Exception


def _invalid_operations(module: ModuleOp) -> Iterator[Diagnostic]:
    """Verify operation by operation, inner ones first, to learn which of them failed."""
    for op in module.walk(region_first=True):
        try:
            op.verify(verify_nested_ops=False)
        except Exception as error:
            # A verifier that fails otherwise has met what another one refuses.
            if not _means_invalid(error):
                continue
            message = str(error).removeprefix("Operation does not verify: ").strip()
            yield at_operation(op, message)


def _bad_uses(module: ModuleOp) -> Iterator[Diagnostic]:
    for op, index in undominated_uses(module):
        name = op.operands[index].name_hint
        value = f"operand #{index}" + (f" (%{name})" if name else "")
        yield at_operation(op, f"{value} is used before its definition or outside its scope")
