"""Decide for every operation which device runs it, and say why."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.dialects.mem import COST, DEVICE, REASON, Device, DeviceAttr
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import Finding, InputError, UsageError, node_name
from ceras_ir.transforms.memory.analysis.liveness import steps

if TYPE_CHECKING:
    from ceras_ir.transforms.placement.analysis.placement import Cost

ACCELERATORS: dict[str, tuple[Device, str]] = {
    "nnet": (Device.FPGA, "ceras_ir.backends.nnet.rules"),
    "vta": (Device.VTA, "ceras_ir.backends.vta.rules"),
}
"""Target -> its accelerator, and the module whose `why_not(op)` gives the rule against it."""


@dataclass(frozen=True)
class PlacePass(ModulePass):
    """
    Every operation gets `mem.device`: the accelerator of `target` where its rules admit the
    operation, else the CPU with `mem.reason`, the rule in one sentence. Changes no value.

    With `board` (a name or a file: TOML for nnet, VTA's JSON for vta), rules are those of that
    board, and the accelerator also leaves what takes less time on the CPU: of all placements the
    one of least modelled time, transfers between the sides included, and `mem.cost` on every
    operation says what each side would take. VTA keeps every dense product that it can run.
    Schedules are searched in `jobs` processes, which changes no result.
    With target nnet, `cpu` and `fpga` name nodes that must run there.
    """

    name = "place"

    target: Literal["c", "nnet", "vta"] = "c"
    board: str | None = None
    jobs: int = 1
    cpu: tuple[str, ...] = ()
    fpga: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (self.cpu or self.fpga) and self.target != "nnet":
            raise UsageError("place: cpu and fpga are for target=nnet")
        if self.board and self.target == "c":
            raise UsageError("place: target=c has no board")
        main = main_function(op)
        device, why_not = accelerator(self.target, self.board)
        reasons: dict[Operation, str] = {}
        for operation in steps(main):
            operation.attributes.pop(COST, None)
            if (reason := why_not(operation)) is not None:
                reasons[operation] = reason
        pins = self._pins(main, reasons)
        for operation, pin in pins.items():
            if not pin:
                reasons.setdefault(operation, "pinned to the CPU by the user")
        if self.board is not None and self.target == "vta":
            _place_on_vta(main, self.board, reasons, self.jobs)
        elif self.board is not None:
            _place_by_cost(main, self.board, reasons, pins)
        for operation in steps(main):
            reason = reasons.get(operation)
            operation.attributes.pop(REASON, None)
            operation.attributes[DEVICE] = DeviceAttr(device if reason is None else Device.CPU)
            if reason is not None and self.target != "c":
                operation.attributes[REASON] = StringAttr(reason)

    def _pins(self, main: FuncOp, reasons: dict[Operation, str]) -> dict[Operation, bool]:
        """Operations of the named nodes; whether each must run on the FPGA."""
        found: dict[str, list[Operation]] = {}
        for operation in steps(main):
            found.setdefault(node_name(operation), []).append(operation)
        pins: dict[Operation, bool] = {}
        for names, wanted in ((self.cpu, False), (self.fpga, True)):
            for name in names:
                if name not in found:
                    raise UsageError(f"place: no node '{name}' in the network to pin")
                for operation in found[name]:
                    if pins.setdefault(operation, wanted) != wanted:
                        raise UsageError(f"place: node '{name}' is pinned to both sides")
        refused = [
            Finding(node_name(o), o.name, f"pinned to the FPGA, but {reasons[o]}")
            for o, wanted in pins.items()
            if wanted and o in reasons
        ]
        if refused:
            raise InputError(refused)
        return pins


def _place_by_cost(
    main: FuncOp, name: str, reasons: dict[Operation, str], pins: dict[Operation, bool]
) -> None:
    """Add to `reasons` what the cheapest placement leaves to the CPU, and note all costs."""
    from ceras_ir.backends.nnet.board import load_board
    from ceras_ir.transforms.placement.analysis.placement import (
        cheapest,
        circuit_limit,
        cost_of,
        transfer,
    )

    board = load_board(name)
    order = steps(main)
    for op in order:
        if op not in reasons and (reason := circuit_limit(op, board)) is not None:
            if pins.get(op):
                message = f"pinned to the FPGA, but {reason}"
                raise InputError([Finding(node_name(op), op.name, message)])
            reasons[op] = reason
    costs = {op: cost_of(op, board, admitted=op not in reasons) for op in order}
    _, fpga = cheapest(main, costs, pins, lambda value: transfer(value, board))
    _note(costs, fpga, reasons)


def _place_on_vta(main: FuncOp, name: str, reasons: dict[Operation, str], jobs: int) -> None:
    """The same by the model of VTA and its host."""
    from ceras_ir.backends.vta.board import load_board
    from ceras_ir.backends.vta.placement import (
        cost_of,
        must_run_on_vta,
        search_schedules,
        transfer,
    )
    from ceras_ir.transforms.placement.analysis.placement import cheapest

    board = load_board(name)
    search_schedules((op for op in steps(main) if op not in reasons), board, jobs)
    costs = {op: cost_of(op, board, admitted=op not in reasons) for op in steps(main)}
    pins = {op: True for op in costs if op not in reasons and must_run_on_vta(op)}
    _, vta = cheapest(main, costs, pins, lambda value: transfer(value, board))
    _note(costs, vta, reasons)


def _note(
    costs: "Mapping[Operation, Cost]", chosen: set[Operation], reasons: dict[Operation, str]
) -> None:
    """Write down all costs, and the reason for what could run on the accelerator but does not."""
    for op, cost in costs.items():
        op.attributes[COST] = StringAttr(str(cost))
        if op not in reasons and op not in chosen:
            reasons[op] = f"less time in all on the CPU, transfers included ({cost})"


def accelerator(
    target: str, board: str | None = None
) -> tuple[Device, Callable[[Operation], str | None]]:
    """The device of a target and its rules; for plain C, the CPU runs everything."""
    if target not in ACCELERATORS:
        return Device.CPU, lambda _: None
    device, module = ACCELERATORS[target]
    rules = import_module(module)
    if target == "vta" and board is not None:
        from ceras_ir.backends.vta.board import load_board

        described = load_board(board)
        return device, lambda op: rules.why_not(op, described)
    return device, rules.why_not
