"""A program is equal in the dialect, in text and as a value."""

from pathlib import Path

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser

from ceras_ir.backends.vta.machine.assembler import assemble_program, disassemble_program
from ceras_ir.backends.vta.machine.dialect import (
    FinishOp,
    ProgramOp,
    Vta,
    VtaAluOp,
    VtaGemmOp,
    VtaLoadOp,
    VtaStoreOp,
)
from ceras_ir.backends.vta.machine.encoding import VtaProgram
from ceras_ir.backends.vta.machine.isa import AluOpcode, Instruction, MemoryType
from ceras_ir.backends.vta.machine.stream import StreamBuilder
from ceras_ir.backends.vta.passes.launches import program_to_op


def context() -> Context:
    ctx = Context()
    ctx.load_dialect(Builtin)
    ctx.load_dialect(Vta)
    return ctx


def program() -> VtaProgram:
    stream = StreamBuilder()
    stream.load(MemoryType.INP, 0, 0, 4, 3, 9, pad=(1, 1, 2, 0))
    stream.load(MemoryType.WGT, 0, 1, 2)
    stream.gemm([(k,) for k in range(6)], reset=True)
    stream.gemm([(k, k, 0) for k in range(6)], iter=(2, 1), src=(6, 0), wgt=(1, 0))
    stream.alu(AluOpcode.SHR, [(0,)], iter=(1, 6), dst=(0, 1), imm=-3)
    stream.alu(AluOpcode.MAX, [(0, 3)], iter=(1, 3), dst=(0, 1))
    stream.store(0, 100, 3)
    return stream.finish(4096)


def equal(a: VtaProgram, b: VtaProgram) -> bool:
    return (
        list(a.instructions) == list(b.instructions)
        and a.micro_ops.tolist() == b.micro_ops.tolist()
        and a.uop_base == b.uop_base
    )


def only_program(module: ModuleOp) -> VtaProgram:
    """Return the only program of `module`."""
    (op,) = (op for op in module.ops if isinstance(op, ProgramOp))
    instructions: list[Instruction] = []
    for i in op.body.block.ops:
        assert isinstance(i, VtaLoadOp | VtaStoreOp | VtaGemmOp | VtaAluOp | FinishOp)
        instructions.append(i.instruction())
    table = np.array(list(op.micro_ops.get_values()), np.int64).reshape(-1, 3)
    return VtaProgram(instructions, table, op.uop_base.value.data)


def test_round_trip_through_the_dialect():
    module = ModuleOp([program_to_op(program(), "launch")])
    module.verify()
    parsed = Parser(context(), str(module)).parse_module()
    parsed.verify()
    assert str(parsed) == str(module)
    assert equal(only_program(parsed), program())


def test_round_trip_through_text():
    assert equal(assemble_program(disassemble_program(program())), program())


def test_a_splat_table():
    text = "vta.program @p uops at 0 dense<1> : tensor<2x3xi16> {\n  vta.finish\n}"
    only = only_program(Parser(context(), text).parse_module())
    assert only.micro_ops.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_micro_op_bytes_are_words(tmp_path: Path):
    data = program().micro_op_bytes()
    assert data[:4] == bytes(4)
    assert int.from_bytes(data[4:8], "little") == 1
