"""Decide for every operation which device runs it, and say why."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.analysis.liveness import steps
from ceras_ir.analysis.network import main_function
from ceras_ir.dialects.mem import DEVICE, REASON, Device, DeviceAttr

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
    """

    name = "place"

    target: Literal["c", "nnet", "vta"] = "c"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device, why_not = accelerator(self.target)
        for operation in steps(main_function(op)):
            reason = why_not(operation)
            operation.attributes.pop(REASON, None)
            operation.attributes[DEVICE] = DeviceAttr(device if reason is None else Device.CPU)
            if reason is not None and self.target != "c":
                operation.attributes[REASON] = StringAttr(reason)


def accelerator(target: str) -> tuple[Device, Callable[[Operation], str | None]]:
    """The device of a target and its rules; for plain C, the CPU runs everything."""
    if target not in ACCELERATORS:
        return Device.CPU, lambda _: None
    device, module = ACCELERATORS[target]
    return device, import_module(module).why_not
