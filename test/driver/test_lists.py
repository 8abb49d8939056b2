"""Check that the commands that list boards, targets and operators fit 80 columns."""

import json
import re
from pathlib import Path

import pytest

from ceras_ir.backends.arduino.target import ArduinoTarget
from ceras_ir.backends.c.target import CTarget
from ceras_ir.driver.commands import boards, compile, operators, targets, verify
from ceras_ir.driver.lists import WIDTH
from ceras_ir.targets.registry import all_targets, target_names

MODEL = Path(__file__).parents[2] / "examples/plugin/pools.mlir"


MAX_BOARD_LINE = 105
"""Titles of boards are complete."""


def printed(capsys: pytest.CaptureFixture[str], width: int = WIDTH) -> list[str]:
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > width and not line.startswith("file: ")] == []
    return lines


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    found = capsys.readouterr()
    assert found.out == ""
    return found.err


def test_all_boards(capsys: pytest.CaptureFixture[str]):
    assert boards([]) == 0
    names = [line.split("  ")[0] for line in printed(capsys, MAX_BOARD_LINE)]
    assert {name for target in all_targets() for name in target.boards()} <= set(names)
    assert names.count("due") == 1


def test_boards_of_a_target(capsys: pytest.CaptureFixture[str]):
    assert boards(["--target", "c"]) == 0
    lines = printed(capsys, MAX_BOARD_LINE)
    assert [line.split("  ")[0] for line in lines[1:-2]] == list(CTarget.boards())
    (due,) = (line for line in lines if line.startswith("due "))
    assert re.split("  +", due)[1:] == ["cortex-m3, 84 MHz", "512 KiB + 96 KiB", "Arduino Due"]
    assert boards(["--target", "interp"]) == 0
    assert printed(capsys)[0] == "target interp has no boards"


def test_several_boards_need_a_model(capsys: pytest.CaptureFixture[str]):
    assert boards(["pico", "due"]) == 2
    assert "compare them for a model: --model MODEL.onnx" in refusal(capsys)


def test_a_board(capsys: pytest.CaptureFixture[str]):
    assert boards(["uno_r4_wifi"]) == 0
    lines = printed(capsys)
    assert lines[0] == "uno_r4_wifi: a board of targets arduino and c"
    assert Path(lines[1].removeprefix("file: ")) == CTarget.boards()["uno_r4_wifi"]
    fields = dict(line.split(maxsplit=1) for line in lines[3:] if line[0] != " ")
    assert fields["core"] == '"cortex-m4"' and fields["flash_bytes"] == "262144"
    assert boards(["pico", "--target", "c"]) == 0
    assert printed(capsys)[0] == "pico: a board of target c"


def test_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    text = CTarget.boards()["nano_33_ble"].read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith(("fqbn", "stack_bytes"))]
    Path("mine.toml").write_text("\n".join(lines))
    assert boards(["mine.toml"]) == 0
    found = printed(capsys)
    assert found[0] == "mine.toml: a board of target c"
    assert any(line.split() == ["stack_bytes", "1024", "(default)"] for line in found)
    Path("mine.toml").write_text(text.replace("clock_mhz", "clok_mhz"))
    assert boards(["mine.toml"]) == 1
    assert "mine.toml: error: a board has no field 'clok_mhz'; did you mean 'clock_mhz'" in (
        refusal(capsys)
    )


@pytest.mark.parametrize("content", [b"\xff\xfe\0", b"", b"x = 1" + b"0" * 5000, b"[" * 10_000])
def test_hostile_files(content: bytes, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (path := tmp_path / "mine.toml").write_bytes(content)
    assert boards([str(path)]) == 1
    assert f"{path}: error: " in refusal(capsys)


@pytest.mark.needs("vta")
def test_json(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from ceras_ir.backends.vta.machine.board import load_board

    config = load_board("pynq").config()
    monkeypatch.chdir(tmp_path)
    (path := Path("vta_config.json")).write_text(json.dumps(config))
    assert boards([str(path)]) == 0
    lines = printed(capsys)
    assert lines[0].endswith("vta_config.json: a board of target vta")
    assert f'{"DRIVER_REGISTERS":22}  "0x43c00000"' in lines
    path.write_text("[]")
    assert boards([str(path)]) == 1
    assert "a VTA configuration is a JSON object" in refusal(capsys)
    assert boards(["pynq"]) == 0
    assert f"{'DRIVER_REGISTERS':22}  0x43c00000" in printed(capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["uno_r4_wifl"], "there is no board 'uno_r4_wifl'; did you mean 'uno_r4_wifi'?"),
        (["zzz"], "there is no board 'zzz' (boards: "),
        (["--target", "c", "uno_r4_wifl"], "target c has no board 'uno_r4_wifl'; did you mean"),
        (["--target", "c", "my_board.tml"], "no board 'my_board.tml'; board files end in .toml"),
        (["--target", "arduin"], "invalid choice: 'arduin'; did you mean 'arduino'?"),
    ],
)
def test_unknown_boards(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert boards(arguments) == 2
    assert message in refusal(capsys)


@pytest.mark.needs("dataflow", "nnet", "vta")
def test_a_board_of_other_targets(capsys: pytest.CaptureFixture[str]):
    hint = "has no board 'zcu104'; it is a board of dataflow and vta"
    assert boards(["--target", "c", "zcu104"]) == 2
    assert hint in refusal(capsys)
    for target in ("c", "arduino"):
        assert compile(["no.onnx", "--target", target, "--board", "zcu104", "-o", "out"]) == 2
        assert f"target {target} {hint} (boards: " in refusal(capsys)
    assert verify([str(MODEL), "--targets", "c,nnet", "--board", "zcu104"]) == 2
    assert f"target c {hint}" in refusal(capsys)


RELU = """
func.func @main(%x: tensor<SIZExf32>) -> tensor<SIZExf32> {
  %y = graph.unary <relu> %x : tensor<SIZExf32>
  func.return %y : tensor<SIZExf32>
}
"""


@pytest.mark.parametrize(("size", "fitting"), [(1000, 17), (10_000, 14), (200_000, 0)])
def test_boards_that_a_model_fits(
    size: int, fitting: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (model := tmp_path / "relu.mlir").write_text(RELU.replace("SIZE", str(size)))
    assert boards(["--model", str(model)]) == (0 if fitting else 1)
    found = capsys.readouterr()
    *lines, empty, note = found.out.splitlines()
    assert not empty and note.endswith("For int8, add --calibrate DATA.npz.")
    rows = [line.split() for line in lines[1:]]
    assert [row[-1] for row in rows] == ["yes"] * fitting + ["SRAM"] * (17 - fitting)
    assert {row[0] for row in rows} == {*ArduinoTarget.boards(), "alif_e7_hp", "ek_ra8m1"}
    assert ("relu.mlir: error: fits none of 17 boards" in found.err) is (not fitting)
    assert compile([str(model), "--target=c", "--board=pico", f"-o{tmp_path / 'out'}"]) in (0, 3)
    if fitting:
        totals = json.loads((tmp_path / "out" / "report.json").read_text())["totals"]
        (pico,) = (row for row in rows if row[0] == "pico")
        assert pico[4] == f"{totals['flash_bytes']:,}" and pico[6] == f"{totals['sram_bytes']:,}"


@pytest.mark.needs("onnx")
def test_named_boards_are_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(CTarget.boards()["pico"].read_text("utf-8"))
    assert boards(["uno_r4_wifi", "mine.toml", "--model", str(MODEL), "--quantize", "int8"]) == 0
    lines = printed(capsys, MAX_BOARD_LINE)
    assert [line.split()[0] for line in lines[1:]] == ["uno_r4_wifi", "mine.toml"]


@pytest.mark.needs("onnx")
def test_a_comparison_of_boards_that_is_not_possible(capsys: pytest.CaptureFixture[str]):
    for option, message in (
        ("--board=pico", "--model compares boards: name them without --board"),
        ("raspberry_pi_4", "board 'raspberry_pi_4' has no limited memory: a model always fits"),
        ("pica", "target c has no board 'pica'; did you mean 'pico'?"),
        ("--target=onnx", "target onnx has no boards with limited memory"),
        ("--calibrat=a.npz", "did you mean '--calibrate'?"),
    ):
        assert boards(["--model", str(MODEL), option]) == 2
        assert message in refusal(capsys)


def test_all_targets(capsys: pytest.CaptureFixture[str]):
    assert targets([]) == 0
    rows = [line.split("  ") for line in printed(capsys)]
    assert {row[0] for row in rows[1 : 1 + len(target_names())]} == set(target_names())
    assert targets(["c"]) == 0
    lines = printed(capsys)
    assert lines[0].startswith("c: Readable C99 without malloc")
    assert any(line.startswith("emulate Cortex-M ") for line in lines)


def test_programs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    assert targets(["arduino"]) == 0
    assert any(line.endswith("qemu-system-arm: not installed") for line in printed(capsys))


def test_unknown_targets(capsys: pytest.CaptureFixture[str]):
    assert targets(["arduin"]) == 2
    assert "unknown target 'arduin'; did you mean 'arduino'?" in refusal(capsys)


def test_operators(capsys: pytest.CaptureFixture[str]):
    assert operators([]) == 0
    lines = printed(capsys)
    text = " ".join(lines)
    assert " Conv, " in text and " MaxPool*, " in text and "Unique" not in text
    assert any(line.split() == ["c", "int8,", "int16,", "float", "CPU"] for line in lines)
    assert "report.json has device and bits of each layer; --why NODE" in text


@pytest.mark.parametrize(
    ("operator", "line"),
    [
        ("Conv", "Conv: supported"),
        ("MaxPool", "MaxPool: supported, if:"),
        ("Shrink", "Shrink: supported, as a function of other operators"),
    ],
)
def test_an_operator(operator: str, line: str, capsys: pytest.CaptureFixture[str]):
    assert operators([operator, "--target", "c"]) == 0
    assert printed(capsys)[0] == line


@pytest.mark.needs("vta")
def test_rules_of_an_accelerator(capsys: pytest.CaptureFixture[str]):
    assert operators(["Conv", "--target", "vta"]) == 0
    assert "- The operation must be quantized." in printed(capsys)


def test_operators_that_are_not_supported(capsys: pytest.CaptureFixture[str]):
    assert operators(["Unique"]) == 3
    assert "unsupported operator Unique: end the model before it" in refusal(capsys)
    assert operators(["Cnov"]) == 2
    assert "unknown operator 'Cnov'; did you mean 'Conv'?" in refusal(capsys)
    assert operators(["a\nb"]) == 2
    assert "unknown operator" in refusal(capsys)
