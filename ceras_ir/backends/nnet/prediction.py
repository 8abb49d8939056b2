"""The time of every layer on a board whose rates are known, by the model that placement uses."""

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.nnet.array_cycles import core_cycles_of
from ceras_ir.backends.nnet.array_plan import why_not_in_verilog
from ceras_ir.backends.nnet.board import load_board
from ceras_ir.backends.nnet.placement import cost_of, moved_bytes
from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects.mem import CPU, device_of
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.report import entries_of
from ceras_ir.targets import MICROSECONDS, Ceiling, Prediction
from ceras_ir.transforms.memory.analysis.liveness import steps

ONLY_IN_CPP = "only_in_cpp"
"""Why the core in Verilog does not run a layer of the FPGA; its time is of the board's rates."""


def annotate_times(layers: list[dict[str, object]], module: ModuleOp, board_name: str) -> None:
    """Add its microseconds to the entry of each layer."""
    board, ops = load_board(board_name), steps(main_function(module))
    for op, entry in zip(ops, entries_of(layers, ops), strict=True):
        if entry is None:
            continue
        on_fpga = device_of(op) == FPGA
        cost = cost_of(op, board, admitted=on_fpga)
        if on_fpga and board.array is not None and moved_bytes(op):
            run = core_cycles_of(op, board.array)
            if run is None:
                entry[ONLY_IN_CPP] = why_not_in_verilog(op, board.array)
            else:
                entry["cycles"] = run[1]
        entry[MICROSECONDS] = round((cost.accelerator if on_fpga else cost.cpu) or 0.0, 3)


def prediction(board_name: str) -> Prediction:
    """Where the times come from, and what circuits and CPU can do at most."""
    board = load_board(board_name)
    circuits = board.circuits.values()
    macs = max((circuit.macs_per_cycle for circuit in circuits), default=0.0)
    moved = max((circuit.bytes_per_cycle for circuit in circuits), default=0.0)
    ceilings = [Ceiling(CPU, board.cpu_macs_per_us, board.cpu_bytes_per_us)]
    if macs and moved:
        ceilings.insert(0, Ceiling(FPGA, macs * board.clock_mhz, moved * board.clock_mhz))
    return Prediction(
        f"{board.title} at {board.clock_mhz:g} MHz",
        (
            "A circuit takes its launch, the packing of computed weights, and the cycles of the "
            "core in Verilog; one in C++ alone "
            f"('{ONLY_IN_CPP}'), the longer of its products and bytes"
            if board.array is not None
            else "A circuit takes its launch and the longer of its products and bytes"
        )
        + ", the CPU its products and its bytes, at the board's rates. Moves between them are not "
        "counted.",
        tuple(ceilings),
    )
