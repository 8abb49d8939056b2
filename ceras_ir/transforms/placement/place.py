"""Decide for every operation which device runs it, and say why."""

from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ceras_ir.dialects.mem import (
    COST,
    CPU,
    DEVICE,
    REASON,
    DeviceAttr,
    FoldZeroPointOp,
    LaunchOp,
    PackOp,
    PackTilesOp,
    PackWindowsOp,
    UnpackOp,
)
from ceras_ir.support.diagnostics import Finding, InputError, UsageError, node_name
from ceras_ir.targets.capabilities import Accelerator, Cost
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.memory.analysis.liveness import steps
from ceras_ir.transforms.network_pass import NetworkPass

PACKING = PackOp | PackWindowsOp | PackTilesOp | FoldZeroPointOp | UnpackOp
BORDER = LaunchOp | PACKING
"""What stands for a network that was placed before, and stays: launches, and what leads to them."""


@dataclass(frozen=True)
class PlacePass(NetworkPass):
    """
    Assign a device to every operation (`mem.device`): the accelerator of `target` where its rules
    admit the operation, else the CPU. `mem.reason` states the rule in one sentence. Without an
    accelerator the CPU runs everything. Changes no value.

    With `board` the rules are those of the board, and the placement is the one of least modelled
    time, transfers included. `mem.cost` on every operation says the time on each side. A target may
    keep operations on its device at any cost.
    """

    name = "place"

    target: str | None = None
    """The target whose accelerator is asked."""
    board: str | None = None
    """The board: a name or a file."""
    jobs: int = 1
    """Processes that search for schedules; the result is the same."""
    cpu: tuple[str, ...] = ()
    """Nodes that must run on the CPU."""
    accelerator: tuple[str, ...] = ()
    """Nodes that must run on the accelerator."""

    def change(self, main: FuncOp) -> None:
        found = None if self.target is None else find_target(self.target)
        device = None if found is None else found.accelerator(self.board, self.jobs)
        if device is None and (self.cpu or self.accelerator or self.board):
            raise UsageError("place: cpu, accelerator and board are for targets with accelerators")
        reasons: dict[Operation, str] = {}
        for operation in steps(main):
            operation.attributes.pop(COST, None)
            if device is not None and not isinstance(operation, BORDER):
                reason = device.why_not(operation)
                if reason is not None:
                    reasons[operation] = reason
        pins = self._pins(main, reasons)
        for operation, pin in pins.items():
            if not pin:
                reasons.setdefault(operation, "pinned to the CPU by the user")
        if device is not None and device.has_costs:
            _place_by_cost(main, device, reasons, pins)
        for operation in steps(main):
            reason = reasons.get(operation)
            operation.attributes.pop(REASON, None)
            where = CPU if device is None or reason is not None else device.device
            if isinstance(operation, PACKING):
                where = CPU
            operation.attributes[DEVICE] = DeviceAttr(where)
            if reason is not None:
                operation.attributes[REASON] = StringAttr(reason)

    def _pins(self, main: FuncOp, reasons: dict[Operation, str]) -> dict[Operation, bool]:
        """Operations of the named nodes; whether each must run on the accelerator."""
        found: dict[str, list[Operation]] = {}
        for operation in steps(main):
            found.setdefault(node_name(operation), []).append(operation)
        pins: dict[Operation, bool] = {}
        for names, wanted in ((self.cpu, False), (self.accelerator, True)):
            for name in names:
                if name not in found:
                    raise UsageError(f"place: no node '{name}' in the network to pin")
                for operation in found[name]:
                    if pins.setdefault(operation, wanted) != wanted:
                        raise UsageError(f"place: node '{name}' is pinned to both sides")
        refused = [
            Finding(node_name(o), o.name, f"pinned to the accelerator, but {reasons[o]}")
            for o, wanted in pins.items()
            if wanted and o in reasons
        ]
        if refused:
            raise InputError(refused)
        return pins


def _place_by_cost(
    main: FuncOp,
    device: Accelerator,
    reasons: dict[Operation, str],
    pins: dict[Operation, bool],
) -> None:
    """Add to `reasons` what the cheapest placement leaves to the CPU, and note all costs."""
    from ceras_ir.transforms.placement.analysis.placement import cheapest

    order = [op for op in steps(main) if not isinstance(op, BORDER)]
    admitted = [op for op in order if op not in reasons]
    device.prepare(admitted)
    costs = {op: device.cost(op, admitted=op not in reasons) for op in order}
    pins = {op: True for op in admitted if device.must_run(op)} | pins
    fixed = {op: Cost(0.0, 0.0, device.device) for op in steps(main) if op not in costs}
    pins = pins | {op: isinstance(op, LaunchOp) for op in fixed}
    _, chosen = cheapest(main, costs | fixed, pins, device.transfer, device.host_operands)
    for op, cost in costs.items():
        op.attributes[COST] = StringAttr(str(cost))
        if op not in reasons and op not in chosen:
            reasons[op] = f"less time in all on the CPU, transfers included ({cost})"
