"""Files for VTA: instructions of every launch, the DRAM image, the board's configuration."""

import json
from typing import BinaryIO

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.vta.board import load_board
from ceras_ir.backends.vta.coherence import cache_maintenance
from ceras_ir.backends.vta.disassembler import disassemble_program
from ceras_ir.backends.vta.driver_files import DrivenLaunch, driver_files
from ceras_ir.backends.vta.hardware import DEFAULT_BOARD_NAME
from ceras_ir.backends.vta.image import build_image
from ceras_ir.backends.vta.machine.check import check_stream
from ceras_ir.backends.vta.performance import measure, totals
from ceras_ir.backends.vta.rewrites.kernel_launch import replaced_by
from ceras_ir.network.artefacts import Artefact, network_inputs, network_outputs
from ceras_ir.network.function import main_function

DRAM_FILE, CONFIG_FILE = "dram.bin", "vta_config.json"


def instruction_file(index: int) -> str:
    """The file with the raw instructions of launch number `index`."""
    return f"launch_{index}.insns"


def emit(
    module: ModuleOp, board_name: str | None = None, *, text: bool = False
) -> tuple[list[Artefact], dict[str, object]]:
    """
    All files of the accelerator's part and its entries of `manifest.json`; `text` adds the
    streams as `.vtas`. The host part is C and comes from that backend; a driver for both is in
    `driver/`. Every stream is proven good,
    as the bytes that the accelerator fetches.
    """
    board = load_board(board_name or DEFAULT_BOARD_NAME)
    image = build_image(module, board)
    words = image.dram()[: image.size // 4 * 4].view("<u4")
    for index, launch in enumerate(image.launches):
        data = launch.program.instruction_bytes(board)
        found = check_stream(data, words, 0, board, image.size)
        if found:
            raise AssertionError(f"launch {index} ({launch.name}): {found[0]}")

    def write_dram(stream: BinaryIO) -> None:
        stream.write(image.dram().tobytes())

    artefacts = [
        Artefact(DRAM_FILE, "flat DRAM image: constants and micro-ops in place", write_dram),
        Artefact.of_text(
            CONFIG_FILE, "VTA configuration", json.dumps(board.config(), indent=2) + "\n"
        ),
    ]
    entries: list[dict[str, object]] = []
    costs = measure(image.launches, board)
    caches = cache_maintenance(module)
    for index, (launch, cost) in enumerate(zip(image.launches, costs, strict=True)):
        name, program = launch.name, launch.program

        def write_instructions(stream: BinaryIO, i: int = index) -> None:
            stream.write(image.launches[i].program.instruction_bytes(board))

        file = instruction_file(index)
        description = f"raw VTA instructions of launch {index} ({name})"
        artefacts.append(Artefact(file, description, write_instructions))
        if text:
            artefacts.append(
                Artefact.of_text(
                    f"launch_{index}.vtas",
                    f"the same as text ({name})",
                    disassemble_program(program),
                )
            )
        entries.append(
            {
                "name": name,
                "instructions": file,
                "count": len(program.instructions),
                "uop_base": program.uop_base,
                "clean": caches[index].clean,
                "invalidate": caches[index].invalidate,
                "cycles": cost.run.cycles,
                "layers": [
                    {
                        "name": part.name,
                        "kernel": op.kernel.string_value(),
                        "operations": replaced_by(op),
                        "performance": part.to_json(),
                    }
                    for op, part in zip(launch.ops, cost.layers, strict=True)
                ],
            }
        )
    if image.launches:
        main = main_function(module)
        table = [
            DrivenLaunch(
                *(launch.name, instruction_file(i), len(launch.program.instructions)),
                *(costs[i].run.cycles, caches[i]),
            )
            for i, launch in enumerate(image.launches)
        ]
        ends = network_inputs(main), network_outputs(main)
        artefacts += driver_files(table, *ends, board, (DRAM_FILE, image.size))
    manifest: dict[str, object] = {
        "dram": {"file": DRAM_FILE, "size": image.size, "arena": image.arena_bytes},
        "config": CONFIG_FILE,
        "launches": entries,
        "regions": [region.to_json() for region in image.regions()],
    }
    return artefacts, {"vta": manifest | {"totals": totals(costs)}}
