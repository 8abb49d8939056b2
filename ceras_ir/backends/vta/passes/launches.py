"""Group launches that start together, and convert them to the dialect `vta`."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.execution.image import build_image
from ceras_ir.backends.vta.machine import dialect as vta
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.encoding import DEFAULT_VTA_BOARD, VtaProgram
from ceras_ir.backends.vta.machine.isa import VtaBoardOptions
from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.dialects.graph.attributes import ConvertsLayout, MovesElements, viewed_operand
from ceras_ir.dialects.mem import CONTINUES, FoldZeroPointOp, LaunchOp
from ceras_ir.support.diagnostics import UnsupportedError
from ceras_ir.transforms.memory.liveness import is_host_work, steps
from ceras_ir.transforms.pass_kinds import NetworkPass


@dataclass(frozen=True)
class GatherLaunchesPass(NetworkPass):
    """
    Move a launch to the previous launch if the host only moves existing elements between them.

    The operands are packed before the first of both, and operations of the host on results follow
    after them. Heads of attention then start together (`merge-launches`). Computations of the host
    for a launch are not moved, because their results would be live for longer: only a single
    head of scores and attention weights is live at a time.

    Exact: each operation remains after its producers, and launches keep their order.

    Before:

        %a = mem.launch @kernel(%p) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
        %u = mem.unpack %a : (tensor<1x4x16xf32>) -> tensor<4x3xf32>
        %q = mem.pack %x : (tensor<4x3xf32>) -> tensor<1x4x16xf32>
        %b = mem.launch @kernel(%q) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
        %v = mem.unpack %b : (tensor<1x4x16xf32>) -> tensor<4x3xf32>
        %y = graph.binary add %u, %v : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
        func.func @kernel(%0: memref<1x4x16xf32>, %1: memref<1x4x16xf32>) { func.return }

    After:

        %q = mem.pack %x : (tensor<4x3xf32>) -> tensor<1x4x16xf32>
        %a = mem.launch @kernel(%p) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
        %b = mem.launch @kernel(%q) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
        %u = mem.unpack %a : (tensor<1x4x16xf32>) -> tensor<4x3xf32>
        %v = mem.unpack %b : (tensor<1x4x16xf32>) -> tensor<4x3xf32>
        %y = graph.binary add %u, %v : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
        func.func @kernel(%0: memref<1x4x16xf32>, %1: memref<1x4x16xf32>) { func.return }
    """

    name = "gather-launches"

    def change(self, main: FuncOp) -> None:
        group: list[LaunchOp] = []
        for launch in [step for step in steps(main) if isinstance(step, LaunchOp)]:
            if not (group and _move_after(group, launch)):
                group.clear()
            group.append(launch)


def _move_after(group: Sequence[LaunchOp], launch: LaunchOp) -> bool:
    """
    Move `launch` directly after the last launch of `group`, so that they can start together. Return
    whether dependences allow this; otherwise no operation is moved.
    """
    block = launch.parent
    assert block is not None
    following = _between(group[-1], launch)
    inside = [op for op in _between(group[0], group[-1]) if op not in group]
    needed = _producers(launch, {*inside, *following})
    dependent = set[Operation](group)
    """The group, and views of the results."""
    before: list[Operation] = []
    for op in [*inside, *following]:
        if op not in needed:
            continue
        if any(operand.owner in dependent for operand in op.operands):
            if viewed_operand(op) is None:
                return False
            dependent.add(op)
        elif _is_data_movement(op):
            before.append(op)
        else:
            return False
    for op in before:
        op.detach()
        block.insert_op_before(op, group[0])
    for op in reversed([op for op in following if op not in needed]):
        op.detach()
        block.insert_op_after(op, launch)
    return True


def _between(first: Operation, last: Operation) -> list[Operation]:
    found: list[Operation] = []
    op = first if first is last else first.next_op
    while op is not None and op is not last:
        found.append(op)
        op = op.next_op
    return found


def _producers(launch: LaunchOp, among: set[Operation]) -> set[Operation]:
    found, left = set[Operation](), list[Operation]([launch])
    while left:
        for operand in left.pop().operands:
            owner = operand.owner
            if isinstance(owner, Operation) and owner in among and owner not in found:
                found.add(owner)
                left.append(owner)
    return found


def _is_data_movement(op: Operation) -> bool:
    if isinstance(op, ConstantOp | FoldZeroPointOp):
        return True
    return any(
        op.has_trait(trait, value_if_unregistered=False)
        for trait in (MovesElements, ConvertsLayout)
    )


@dataclass(frozen=True)
class MergeLaunchesPass(NetworkPass):
    """
    Set `mem.continues` on each launch that follows another without work of the host between them.

    The attribute is removed from all other launches. A target may create a common program of
    such launches. Run it after `allocate-blocks`, which decides whether a view is a copy.

    Exact: launches keep their order; the attribute only states that the host does not intervene.

    Before:

        %a = mem.launch @kernel(%x) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
        %y = mem.launch @kernel(%a) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
        func.func @kernel(%0: memref<1x4x16xf32>, %1: memref<1x4x16xf32>) { func.return }

    After:

        %a = mem.launch @kernel(%x) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
        %y = mem.launch @kernel(%a) {mem.continues} : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
        func.func @kernel(%0: memref<1x4x16xf32>, %1: memref<1x4x16xf32>) { func.return }
    """

    name = "merge-launches"

    def change(self, main: FuncOp) -> None:
        follows = False
        for step in steps(main):
            if isinstance(step, LaunchOp):
                step.attributes.pop(CONTINUES, None)
                if follows:
                    step.attributes[CONTINUES] = UnitAttr()
                follows = True
            elif is_host_work(step):
                follows = False


LOGS = ("log_uops", "log_inp", "log_wgt", "log_acc")


@dataclass(frozen=True)
class ConvertTileToVtaPass(VtaBoardOptions, ModulePass):
    """
    Append `vta.program @launch_<i>` for the i-th `mem.launch`.

    It contains the kernels of the launch, and of launches that start with it (`mem.continues`),
    with all loops expanded, at the addresses in `mem.block` of the operands. Launches and kernels
    remain as the specification of the programs. Values must have addresses. Boards with larger
    buffers than published are refused, because indices would not fit the dialect.

    Before:

        !q = tensor<1x16x!quant.uniform<i8:f32, 0.5>>
        !m = memref<1x16xi8, "dram">
        !acc = memref<1x1x16xi32, "acc">
        #block = #mem.block<id = 0, offset = 0, size = 16>
        func.func @main() -> !q attributes {mem.arena = #mem.arena<size = 256, alignment = 256>} {
          %y = mem.launch @zeros() {mem.block = #block} : () -> !q
          func.return %y : !q
        }
        func.func @zeros(%y: !m) {
          %c0 = arith.constant 0 : index
          %acc = memref.alloc() : !acc
          tile.clear %acc[] {extents = array<i64: 1>} : !acc
          tile.store %acc[] to %y[%c0] {box = array<i64: 1, 1>} : !acc to !m
          func.return
        }

    After:

        func.func @main() -> !q attributes {mem.arena = #mem.arena<size = 256, alignment = 256>} {
          %y = mem.launch @zeros() {mem.block = #block} : () -> !q
          func.return %y : !q
        }
        func.func @zeros(%y: !m) {
          %c0 = arith.constant 0 : index
          %acc = memref.alloc() : !acc
          tile.clear %acc[] {extents = array<i64: 1>} : !acc
          tile.store %acc[] to %y[%c0] {box = array<i64: 1, 1>} : !acc to !m
          func.return
        }
        vta.program @launch_0 uops at 64 dense<0> : tensor<1x3xi16> {
          vta.load uop sram 0 dram 64 size [1, 1] stride 1
          vta.gemm reset uops [0, 1] iter [1, 1] push_next
          vta.store sram 0 dram 0 size [1, 1] stride 1 pop_prev push_prev
          vta.load uop sram 0 dram 0 size [0, 0] stride 0 pop_next
          vta.finish
        }
    """

    name = "convert-tile-to-vta"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        board = load_board(self.board)
        if any(getattr(board, log) > getattr(DEFAULT_VTA_BOARD, log) for log in LOGS):
            raise UnsupportedError(
                f"unsupported board '{self.board}': the vta dialect has indices for the published "
                "buffer sizes; look at the streams as text (ceras-compile --save-temps)"
            )
        for old in [o for o in op.body.block.ops if isinstance(o, vta.ProgramOp)]:
            old.detach()
            old.erase()
        for index, launch in enumerate(build_image(op, board).launches):
            op.body.block.add_op(program_to_op(launch.program, f"launch_{index}"))


def program_to_op(program: VtaProgram, name: str) -> vta.ProgramOp:
    body = [vta.from_instruction(i) for i in program.instructions]
    return vta.ProgramOp(name, program.micro_ops, program.uop_base, body)
