"""
Count the instructions per multiplication of layers on 64-bit Arm or RISC-V.

A plugin counts under the user mode of qemu. Integers are compared with the interpreter, floats
within a tolerance.

    python benchmarks/cross_layers.py {aarch64,riscv} [--xnnpack BUILD] [--ncnn BUILD]

With builds of XNNPACK or ncnn (`cross_peers.py`), another table has the instructions of the peer
that needs fewest, and the ratio of the peer to ours, also for the networks of `cross_networks.py`,
in millions. ncnn multiplies int8 without Winograd, for which it needs weights of 6 bits.

For RISC-V, `scalar` is compiled without the vector extension, and `portable` with automatic
vectorization by the compiler. Ratios are relative to vectors of 128 bits.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from cortex_m import Case, layer_of, network
from cross import AARCH64, Cross, caller, instructions_of_run, riscv
from cross_networks import NETWORKS, Network, networks
from cross_peers import Peer, description, peers
from firmware import write_files
from rich.console import Console
from rich.table import Table

from ceras_ir.backends.c.emitter import emit
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function

PLUGIN = Path(__file__).with_name("qemu_count.c")

CASES = (
    Case("3x3, C = 64", (1, 56, 56, 64), (64, 3, 3, 64), 1),
    Case("3x3, C = 256", (1, 14, 14, 256), (256, 3, 3, 256), 1),
    Case("3x3, C = 16", (1, 32, 32, 16), (16, 3, 3, 16), 1),
    Case("1x1, C = 128", (1, 28, 28, 128), (128, 1, 1, 128), 0),
    Case("depthwise 3x3", (1, 28, 28, 96), (96, 3, 3, 1), 1, groups=96),
    Case("FC 1024 to 512", (1, 1024), (512, 1024), 0),
    Case("float 3x3, C = 64", (1, 56, 56, 64), (64, 3, 3, 64), 1, is_float=True),
    Case("float 3x3, stride 2", (1, 56, 56, 64), (64, 3, 3, 64), 1, stride=2, is_float=True),
    Case("float 1x1, C = 128", (1, 28, 28, 128), (128, 1, 1, 128), 0, is_float=True),
    Case("float depthwise", (1, 28, 28, 96), (96, 3, 3, 1), 1, groups=96, is_float=True),
)


def measure(case: Case, plugin: Path, cross: Cross, build: str) -> float:
    """Return the instructions per multiplication, and assert that the integers are correct."""
    flags = cross.builds[build]
    module = network(case)
    main = main_function(module)
    ends = network_inputs(main), network_outputs(main)
    with tempfile.TemporaryDirectory(prefix="ceras-cross-") as name:
        work = Path(name)
        write_files(emit(module), work)
        rng = np.random.default_rng(1)
        dtype = np.float32 if case.is_float else np.int8
        sample = {"input0": rng.integers(-128, 128, case.shape).astype(dtype)}
        got = cross.run(cross.build(work, work / "main.c", flags), sample, *ends)
        expected = run(module, sample)["output0"].astype(np.float32)
        error = np.abs(got["output0"].astype(np.float32) - expected).max()
        assert error <= (1e-5 * np.abs(expected).max() if case.is_float else 0), case.name
        counted = caller(work, "float" if case.is_float else "int8_t", *ends)
        program = cross.build(work, counted, flags)
        instructions = instructions_of_run(cross.emulator, plugin, program)
    return instructions / layer_of(module).macs


def figures(case: Case, plugin: Path, processor: str) -> list[str]:
    """Return a row of the table."""
    if processor == "aarch64":
        # Floats have no kernels beyond plain NEON.
        kinds = ("portable", "neon") if case.is_float else tuple(AARCH64.builds)
        return [f"{measure(case, plugin, AARCH64, kind):.3f}" for kind in kinds]
    narrow, wide = riscv(128), riscv(256)
    runs = [measure(case, plugin, narrow, kind) for kind in narrow.builds]
    compiled = measure(case, plugin, wide, "portable")
    longer = measure(case, plugin, wide, "rvv")
    ratios = [f"{other / runs[-1]:.2f}" for other in runs[:-1]]
    return [f"{run:.3f}" for run in (*runs, compiled, longer)] + ratios


COMPARED: dict[str, list[tuple[str, Cross, str, str]]] = {
    "aarch64": [
        ("neon", AARCH64, "neon", "cortex-a53"),
        ("dotprod", AARCH64, "dotprod", "cortex-a76"),
        ("i8mm", AARCH64, "i8mm", "max,sve=off"),
    ],
    "riscv": [
        (f"{bits} bits", riscv(bits), "rvv", riscv(bits).emulator[-1]) for bits in (128, 256)
    ],
}
"""Processor -> title, processor, build and emulated core of each comparison."""


def compared(case: Case | Network, plugin: Path, processor: str, found: list[Peer]) -> list[str]:
    """
    Return a row of the comparison: ours, the best peer, and the ratio, for each core. Figures of
    networks are in millions of instructions.
    """
    row: list[str] = []
    if isinstance(case, Network):
        layers, unit = case.layers, 1e6
    else:
        op = layer_of(network(case))
        layers, unit = [description(op, is_float=case.is_float)], op.macs
    for _, cross, build, cpu in COMPARED[processor]:
        if isinstance(case, Network):
            ours = case.measure(cross, plugin, build) / unit
        else:
            ours = measure(case, plugin, cross, build)
        counts = {peer.name: peer.count(layers, cpu) / unit for peer in found}
        best = min(counts, key=lambda name: counts[name])
        row += [f"{ours:.3f}", f"{counts[best]:.3f} {best}", f"{counts[best] / ours:.2f}"]
    return row


HEADERS = {
    "aarch64": tuple(AARCH64.builds),
    "riscv": (
        *riscv().builds, "portable, 256", "rvv, 256", "scalar / rvv", "portable / rvv",
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="layers on processors that are not at hand")
    parser.add_argument("processor", choices=HEADERS)
    parser.add_argument("--only", default="", help="layers whose name contains this")
    parser.add_argument("--xnnpack", type=Path, metavar="BUILD", help="a build of XNNPACK")
    parser.add_argument("--ncnn", type=Path, metavar="BUILD", help="a build of ncnn")
    arguments = parser.parse_args()
    cross = AARCH64 if arguments.processor == "aarch64" else riscv()
    if not cross.is_available:
        raise SystemExit(f"needs {cross.compiler[0]} and {cross.emulator[0]}")
    has_peers = bool(arguments.xnnpack or arguments.ncnn)
    headers = HEADERS[arguments.processor]
    if has_peers:
        titles = [title for title, *_ in COMPARED[arguments.processor]]
        headers = tuple(h for title in titles for h in (title, "best peer", "peer / ours"))
    table = Table(box=None, pad_edge=False)
    table.add_column("instructions per MAC")
    for header in headers:
        table.add_column(header, justify="right")
    with tempfile.TemporaryDirectory(prefix="ceras-plugin-") as name:
        plugin = Path(name) / "count.so"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", PLUGIN, "-o", plugin], check=True)
        found = peers(cross, Path(name), plugin, arguments.xnnpack, arguments.ncnn)
        for case in CASES:
            if arguments.only not in case.name:
                continue
            if has_peers:
                row = compared(case, plugin, arguments.processor, found)
            else:
                row = figures(case, plugin, arguments.processor)
            table.add_row(case.name, *row)
        wanted = [title for title in NETWORKS if arguments.only in title] if has_peers else []
        for each in networks(tuple(wanted)):
            table.add_row(each.title, *compared(each, plugin, arguments.processor, found))
    Console(highlight=False, width=140).print(table)


if __name__ == "__main__":
    main()
