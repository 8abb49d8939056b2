"""
Compile programs of several lengths, and compare them with programs of one length.

    python benchmarks/lengths.py [--lengths N] [--flags "-O3 -march=native"]

For each network of `length_networks.py`, in float and int8: the bytes of code with its tables of
the program of the largest length, of the program of all lengths, and the ratio, for x86-64 and
Cortex-M4; the bytes of constants of both; and the number of lengths at which the results of the
program equal those of the program of this length bit for bit.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from length_networks import NETWORKS, samples

from ceras_ir.backends.c.runner import CModel
from ceras_ir.backends.c.target import CTarget
from ceras_ir.data.array_archive import save_arrays
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.network.length_table import LengthTable
from ceras_ir.network.lengths import lengths_of, parse_shapes
from ceras_ir.pipeline.build import Build, build, build_target
from ceras_ir.pipeline.lengths import (
    LengthModules,
    build_lengths,
    quantize_lengths,
    read_lengths,
)
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions

CORTEX = "arm-none-eabi-gcc -Os -mthumb -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16"
CALIBRATION_SAMPLES = 64


def run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed: {done.stderr}")
    return done.stdout


def written(built: Build, folder: Path) -> Path:
    folder.mkdir()
    built.write(folder)
    return folder


def size(folder: Path, file: str, compiler: str) -> int:
    """Return the bytes of instructions and constants in the object of a C file."""
    command, target = compiler.split(), folder / "size.o"
    run(*command, "-std=c99", "-ffp-contract=off", "-c", folder / file, "-o", target)
    prefix = "arm-none-eabi-" if command[0].startswith("arm") else ""
    return int(run(f"{prefix}size", target).splitlines()[1].split()[0])


def program(built: Build, folder: Path) -> CModel:
    main = main_function(built.module)
    tensors = network_inputs(main), network_outputs(main)
    table = LengthTable.from_manifest(built.emission.manifest, *tensors)
    return CModel(folder, *tensors, lengths=table, flags=("-O1", "-march=native"))


def row(name: str, is_int8: bool, lengths: list[int], host: str, folder: Path) -> list[str]:
    make, pattern = NETWORKS[name]
    model = folder / "model.onnx"
    model.write_bytes(make().SerializeToString())
    tensor, _, shape = pattern.partition("=")
    chosen = lengths_of({tensor: parse_shapes(",".join(map(shape.format, lengths)))})
    assert chosen is not None
    networks = read_lengths(lambda s: read_network(str(model), shapes=s), chosen)
    options = BuildOptions(CTarget(), "none")
    if is_int8:
        infos = network_inputs(main_function(networks.largest))
        data = samples({t.name: (t.dtype, t.shape) for t in infos}, CALIBRATION_SAMPLES, 0)
        save_arrays(str(folder / "data.npz"), data)
        options = BuildOptions(CTarget(), "int8", calibration=str(folder / "data.npz"))
        quantize_lengths(networks, options)
    modules = [module.clone() for module in networks.modules]
    whole = build_lengths(LengthModules(chosen, networks.modules), options)
    every = written(whole, folder / "every")
    everything = program(whole, every)
    equal, one = 0, every
    for length, module in zip(lengths, modules, strict=True):
        alone = (build_target if is_int8 else build)(module.clone(), options)
        one = written(alone, folder / f"one{length}")
        infos = network_inputs(main_function(module))
        drawn = samples({t.name: (t.dtype, t.shape) for t in infos}, 1, length)
        arrays = {t.name: drawn[t.name].reshape(t.shape) for t in infos}
        results = everything.run(arrays), program(alone, one).run(arrays)
        equal += all(results[0][k].tobytes() == v.tobytes() for k, v in results[1].items())
    cells = [name, "int8" if is_int8 else "float"]
    for compiler in (host, CORTEX):
        bytes_of = [size(each, "model.c", compiler) for each in (one, every)]
        cells += [f"{bytes_of[0]:,}", f"{bytes_of[1]:,}", f"{bytes_of[1] / bytes_of[0]:.2f}"]
    constants = [size(each, "model_weights.c", "gcc") for each in (one, every)]
    return [*cells, *(f"{n:,}" for n in constants), f"{equal} of {len(lengths)}"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare programs of several lengths.")
    parser.add_argument("--lengths", type=int, default=16, help="number of lengths (default: 16)")
    parser.add_argument("--flags", default="-O2", help="flags of gcc for x86-64 (default: -O2)")
    arguments = parser.parse_args()
    lengths = [8 * (i + 1) for i in range(arguments.lengths)]
    heads = ["network", "type"]
    for machine in (f"x86-64 {arguments.flags}", "Cortex-M4"):
        heads += [f"{machine}: one", "all", "ratio"]
    print("| " + " | ".join([*heads, "constants: one", "all", "exact"]) + " |")
    print("|---" * (len(heads) + 3) + "|")
    for name in NETWORKS:
        for is_int8 in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                host = f"gcc {arguments.flags}"
                cells = row(name, is_int8, lengths, host, Path(folder))
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
