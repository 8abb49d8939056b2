"""
Emit the files of the C backend from a module with placed values.

All layers are printed before the first file is written, so that all unsupported operations are
reported together. Constants are packed while their file is written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from typing import IO, BinaryIO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.target import Target

from ceras_ir.backends.c.build_files import cmake_lists, makefile, toolchain
from ceras_ir.backends.c.constants import ConstantPool, write_source
from ceras_ir.backends.c.interface import api_header, bench_source, program_source
from ceras_ir.backends.c.layer import CalledFunction, Layer, printer_of
from ceras_ir.backends.c.lengths import check_states, with_lengths
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.model import PrintedModel, returned_name
from ceras_ir.backends.c.names import Package
from ceras_ir.backends.c.packages import package_files
from ceras_ir.backends.c.program import Program
from ceras_ir.backends.c.source import kernels_header, model_source, self_test
from ceras_ir.backends.c.values import Kernels, Refused, value_type
from ceras_ir.backends.c.weights_file import (
    checksum,
    inclusions,
    weights_header,
    weights_source_header,
    write_file,
)
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import Finding, UnsupportedError, UsageError, node_name


def emit(module: ModuleOp, options: COptions | None = None) -> list[Artefact]:
    """
    Print a module with placed values as C, and return the files in the order of `manifest.json`.
    The default options are for this machine.
    """
    return files_of(build(module, options or COptions()))


def files_of(model: PrintedModel, package: Package | None = None) -> list[Artefact]:
    """
    Return the files of a printed network. With `package`, such as `zephyr`, the files that make the
    folder a package of this framework are included.
    """
    weights, constants = model.options.weights, model.pool.constants
    crc = 0 if weights == "source" else checksum(constants)
    prefix = model.options.prefix

    def text(path: str, description: str, content: str) -> Artefact:
        return Artefact.of_text(
            prefix.renamed(path), prefix.renamed(description), prefix.renamed(content)
        )

    def data(path: str, description: str, write: Callable[[BinaryIO], None]) -> Artefact:
        return Artefact(prefix.renamed(path), prefix.renamed(description), write)

    source = model_source(model, crc)
    source += self_test(model, source)
    files = [
        text("model.h", "C API of the model", api_header(model)),
        text("model.c", "the network, a function per layer", source),
        text("model_kernels.h", "functions that the layers share", kernels_header(model, source)),
        text("model_weights.h", "declarations of the constants", weights_header(model, crc)),
    ]
    if weights != "source":
        use = "loaded by model_load_weights" if weights == "file" else "included by model_weights.c"
        write = partial(write_file, constants, crc)
        files.append(data("model.weights", f"constants, {use}", write))
    if weights == "source":
        write = partial(write_source, constants, weights_source_header(model), prefix.renamed)
        files.append(data("model_weights.c", "constants as string literals", write))
    elif weights == "incbin":
        content = weights_source_header(model) + inclusions(constants)
        files.append(text("model_weights.c", "includes model.weights", content))
    if not model.program.launches:
        files += [
            text("main.c", "runs the model on raw tensors", program_source(model)),
            text("bench.c", "times the model", bench_source(model)),
            text("CMakeLists.txt", "builds a library and both", cmake_lists(model, package)),
        ]
        if not (machine := model.options.machine).is_native:
            about = f"cmake --toolchain, for {machine.title}"
            files.append(text("toolchain.cmake", about, toolchain(machine)))
    is_bare = model.options.machine.is_bare
    built = "compiles the model" if is_bare else "builds model_run and model_bench"
    files.append(text("Makefile", built, makefile(model)))
    return files if package is None else [*files, *package_files(package, model)]


def build(module: ModuleOp, options: COptions) -> PrintedModel:
    """
    Print the C function of each operation of the network. If operations are not supported, raise a
    single `UnsupportedError` that lists them all.
    """
    pool, findings = ConstantPool(has_vectors=options.vectors), list[Finding]()
    model = _print(Program.of(module), options, Kernels(), pool, findings)
    if findings:
        raise UnsupportedError(findings)
    pool.merge_duplicates()
    return model


def build_lengths(
    modules: Sequence[ModuleOp], values: Sequence[int], options: COptions
) -> PrintedModel:
    """
    Print the networks of ascending lengths `values` as one program. Constants are stored a single
    time; a constant that is the start of a larger one is stored as a part of it.
    """
    pool, kernels = ConstantPool(has_vectors=options.vectors), Kernels()
    findings: list[Finding] = []
    options = replace(options, common_tiles=True)
    members: list[PrintedModel] = []
    first = bodies = 0
    # The largest length has the layers from 0.
    for i, module in reversed(list(enumerate(modules))):
        name = Program.name if i == len(modules) - 1 else f"model_length_{i}"
        program = Program.of_function(main_function(module), name)
        members.insert(0, _print(program, options, kernels, pool, findings, first, bodies))
        bodies += len(members[0].bodies)
        first += sum(len(each.layers) for each in (members[0], *members[0].bodies))
    if findings:
        raise UnsupportedError(list(dict.fromkeys(findings)))
    check_states(members)
    pool.merge_duplicates()
    pool.merge_beginnings()
    return with_lengths(members, values)


def _print(
    program: Program,
    options: COptions,
    kernels: Kernels,
    pool: ConstantPool,
    findings: list[Finding],
    first: int = 0,
    number: int = 0,
) -> PrintedModel:
    """
    Print the layers of a network from index `first`, and its functions of loops and branches from
    `number`.
    """
    bodies: list[PrintedModel] = []
    called: dict[str, CalledFunction] = {}
    at = first + len(program.steps)
    for function in called_functions(program.main):
        body = Program.of_function(function, f"model_body_{number + len(bodies)}")
        layers = _layers(body, options, kernels, pool, called, at, findings)
        bodies.append(PrintedModel(options, body, layers, pool, kernels, first=at))
        at += len(layers)
        called[function.sym_name.data] = CalledFunction(body.name, bodies[-1].arena_bytes)
    layers = _layers(program, options, kernels, pool, called, first, findings)
    for each in (program, *(body.program for body in bodies)):
        _add_returned_constants(each, pool)
    return PrintedModel(options, program, layers, pool, kernels, bodies, first)


def _layers(
    program: Program,
    options: COptions,
    kernels: Kernels,
    pool: ConstantPool,
    bodies: Mapping[str, CalledFunction],
    first: int,
    findings: list[Finding],
) -> list[Layer]:
    """
    Return the operations of a program printed as C functions, numbered from `first`. Shared
    functions are added to `kernels` and constants to `pool`. `bodies` are the printed functions of
    loops and branches, by name. Operations that cannot be printed are added to `findings`.
    """
    layers: list[Layer] = []
    for index, op in enumerate(program.steps, first):
        there = program.operands_in_place(op)
        layer = Layer(index, op, options.of_layer(index), kernels, pool, there, bodies)
        layer.rings = program.rings
        layers.append(layer)
        if isinstance(op, mem.LaunchOp) or program.is_in_place(op):
            continue
        printer = printer_of(op)
        try:
            _check_constants(op)
            if printer is None:
                raise Refused(f"no C for '{op.name}'; lower it, or place it on another device")
            printer(layer, op)
        except Refused as refusal:
            findings.append(refusal.finding(node_name(op), op.name))
    return layers


def _check_constants(op: Operation) -> None:
    for operand in op.operands:
        graph.constant_array(operand)


def _add_returned_constants(program: Program, pool: ConstantPool) -> None:
    states = enumerate((s.state.result for s in program.states), len(program.outputs))
    for value, index in (*program.copied_out, *((value, i) for i, value in states)):
        if isinstance(constant := value.owner, graph.ConstantOp):
            array = constant.array()
            name, kind = returned_name(program, index), value_type(value)
            pool.add(name, kind, array.size, array.itemsize, constant.array)


@dataclass(frozen=True)
class CText(Target):
    """Print a file of the C backend to stdout, `model.c` by default."""

    name = "c"

    file: str = "model.c"
    workspace: int = COptions.workspace

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        artefacts = {a.path: a for a in emit(module, COptions(workspace=self.workspace))}
        if self.file not in artefacts:
            raise UsageError(f"no file '{self.file}'; there are {', '.join(artefacts)}")
        artefacts[self.file].write(stream := BytesIO())
        output.write(stream.getvalue().decode("ascii"))
