"""`ceras-run --vta-stream` runs streams from files, raw and as text."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ceras_ir.backends.vta.machine.assembler import disassemble_program
from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.encoding import VtaProgram
from ceras_ir.backends.vta.machine.isa import AluOpcode, MemoryType
from ceras_ir.backends.vta.machine.stream import StreamBuilder
from ceras_ir.driver.compile import main as compile_model
from ceras_ir.driver.run import main

BOARD = VtaBoard()
TABLE = 2048


def doubled_rows(count: int = 4) -> VtaProgram:
    """
    Multiply vectors 0 to `count` of DRAM by two into vectors from 64 on. The tile is at byte 512.
    """
    builder = StreamBuilder(BOARD)
    builder.load(MemoryType.INP, 0, 0, count)
    builder.load(MemoryType.WGT, 0, 2, 1)
    rows = [(i, i, 0) for i in range(count)]
    builder.gemm(rows, reset=True)
    builder.gemm(rows)
    builder.alu(AluOpcode.MAX, rows, imm=-128)
    builder.store(0, 64, count)
    return builder.finish(TABLE // 4)


def image(program: VtaProgram | None) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    dram = np.zeros(4096, np.uint8)
    dram[:64] = np.arange(64)
    dram[512:768] = (2 * np.eye(16, dtype=np.uint8)).reshape(-1)
    if program is not None:
        table = program.micro_op_bytes(BOARD)
        dram[TABLE : TABLE + len(table)] = np.frombuffer(table, np.uint8)
    return dram


@pytest.mark.parametrize("text", [False, True], ids=["raw", "text"])
def test_time_and_effect(text: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    program = doubled_rows()
    if text:
        (file := tmp_path / "stream.vtas").write_text(disassemble_program(program))
    else:
        (file := tmp_path / "stream.insns").write_bytes(program.instruction_bytes(BOARD))
    before, after = tmp_path / "before.bin", tmp_path / "after.bin"
    # The text contains the micro-ops.
    before.write_bytes(image(None if text else program).tobytes())
    options = ["--inputs", str(before), "--outputs", str(after)]
    elsewhere = str(tmp_path / "none" / "after.bin")
    assert main(["--vta-stream", str(file), *options[:-1], elsewhere]) == 1
    assert "there is no folder" in capsys.readouterr().err
    assert main(["--vta-stream", str(file), *options]) == 0
    result = np.fromfile(after, np.uint8)
    np.testing.assert_array_equal(result[1024 : 1024 + 64], 2 * np.arange(64))
    out = capsys.readouterr().out
    count = len(program.instructions)
    assert out.startswith(f"{file.name}: {count} instructions, ")
    assert "load    busy" in out and "store   busy" in out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--inputs", "x.bin"], 2, "--inputs and --outputs together"),
        (["--target", "vta"], 2, "omit model and --target"),
        ([], 1, "17 bytes are no multiple of the instruction size, 16"),
    ],
)
def test_refused(
    arguments: list[str],
    status: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    (file := tmp_path / "stream.insns").write_bytes(bytes(17))
    assert main(["--vta-stream", str(file), *arguments]) == status
    assert message in capsys.readouterr().err


def test_a_check_names_what_lost_tokens_race_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    program = doubled_rows()
    (dram := tmp_path / "dram.bin").write_bytes(image(program).tobytes())
    (file := tmp_path / "stream.insns").write_bytes(program.instruction_bytes(BOARD))
    ends = ["--inputs", str(dram), "--outputs", str(tmp_path / "after.bin")]
    assert main(["--vta-stream", str(file), *ends, "--check"]) == 0
    (text := tmp_path / "stream.vtas").write_text(disassemble_program(program))
    assert main(["--vta-stream", str(text), "--check"]) == 0
    lost = {"pop_prev": False, "pop_next": False, "push_prev": False, "push_next": False}
    stripped = replace(program, instructions=[replace(i, **lost) for i in program.instructions])
    file.write_bytes(stripped.instruction_bytes(BOARD))
    capsys.readouterr()
    (tmp_path / "after.bin").unlink()
    assert main(["--vta-stream", str(file), *ends, "--check"]) == 1
    assert ": hazard: inp: read after write" in capsys.readouterr().err
    assert not (tmp_path / "after.bin").exists()
    assert main(["--vta-stream", str(file), "--check"]) == 2
    assert "--check of a raw stream needs --inputs" in capsys.readouterr().err
    assert main(["--check", "model.onnx"]) == 2


def test_what_is_compiled_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """No folder is written if a builder forgets a token."""
    built = StreamBuilder.finish

    def forget(self: StreamBuilder, uop_base: int) -> VtaProgram:
        program = built(self, uop_base)
        loads = [replace(i, push_next=False) for i in program.instructions]
        return replace(program, instructions=loads)

    monkeypatch.setattr(StreamBuilder, "finish", forget)
    (model := tmp_path / "model.mlir").write_text(
        """func.func @main(%x: tensor<1x32xf32>) -> tensor<1x16xf32> {
          %w = graph.constant dense<0.125> : tensor<16x32xf32> : tensor<16x32xf32>
          %y = graph.matmul %x, %w : (tensor<1x32xf32>, tensor<16x32xf32>) -> tensor<1x16xf32>
          func.return %y : tensor<1x16xf32>
        }"""
    )
    command = [str(model), "-o", str(tmp_path / "out"), "--target", "vta", "--recipe", "none"]
    monkeypatch.chdir(tmp_path)  # A crash leaves its report in the working folder.
    assert compile_model(command) == 70
    assert "tokens: " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_table_beyond_the_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (file := tmp_path / "stream.vtas").write_text(disassemble_program(doubled_rows()))
    (before := tmp_path / "before.bin").write_bytes(bytes(1024))
    options = ["--inputs", str(before), "--outputs", str(tmp_path / "after.bin")]
    assert main(["--vta-stream", str(file), *options]) == 1
    assert "micro-op table ends at byte" in capsys.readouterr().err
    assert not (tmp_path / "after.bin").exists()


def test_model_is_needed_without_a_stream(capsys: pytest.CaptureFixture[str]):
    assert main(["--inputs", "x.npz"]) == 2
    assert "required: MODEL.onnx|IR.mlir|DIR" in capsys.readouterr().err


def test_mistakes_in_text_have_a_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (file := tmp_path / "stream.vtas").write_text("; one\nfinish\n  frob x=1\n")
    assert main(["--vta-stream", str(file)]) == 1
    assert capsys.readouterr().err == f"{file}:3:3: error: unknown instruction 'frob'\n"


@pytest.mark.parametrize("seed", range(6))
def test_noise_is_refused_or_runs(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """
    Random instructions with valid opcodes, or a good stream with wrong bytes, are refused or run.
    """
    rng = np.random.default_rng(seed)
    if seed % 2:
        words = rng.integers(0, 256, (8, 16), np.uint8)
        words[:, 0] = words[:, 0] & 0xF8 | rng.integers(0, 5, 8, np.uint8)
    else:
        raw = doubled_rows().instruction_bytes(BOARD)
        words = np.frombuffer(raw, np.uint8).copy()
        words[rng.integers(0, len(words), 4)] = rng.integers(0, 256, 4, np.uint8)
    (file := tmp_path / "stream.insns").write_bytes(words.tobytes())
    (before := tmp_path / "before.bin").write_bytes(image(doubled_rows()).tobytes())
    options = ["--inputs", str(before), "--outputs", str(tmp_path / "after.bin")]
    status = main(["--vta-stream", str(file), *options])
    assert status in (0, 1)
    assert len(capsys.readouterr().err.splitlines()) == status
