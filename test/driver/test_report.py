"""The table that ceras-compile prints."""

import pytest

from ceras_ir.driver.compile.report import Layer, explanations, print_table, report


def layer(name: str, reason: str | None, device: str = "cpu") -> Layer:
    return Layer(name, "conv2d", device, reason, 0, 1)


def test_equal_reasons_share_a_line() -> None:
    rule, other = "channels must be a multiple of 16", "no circuit"
    found = [layer("one", other), *(layer(f"l{i}", rule) for i in range(7)), layer("two", other)]
    assert explanations(found) == [f"7 layers on the cpu: {rule}", f"one, two on the cpu: {other}"]


def test_a_reason_on_two_devices_is_two_lines() -> None:
    found = [layer("a", "slow"), layer("b", "slow", "fpga"), layer("c", None)]
    assert explanations(found) == ["a on the cpu: slow", "b on the fpga: slow"]


def test_brackets_in_names_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    found = [layer("block[0]/[red]conv", "rule [3]")]
    print_table(found, report(found, 1, {"peak_bytes": 1}), "vta")
    out = capsys.readouterr().out
    assert "block[0]/[red]conv  conv2d" in out
    assert "block[0]/[red]conv on the cpu: rule [3]" in out


def test_long_names_go_on_in_the_next_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = [layer("a" * 40 + "b" * 3, None), layer("c", None)]
    print_table(found, report(found, 1, {"peak_bytes": 1}), "c")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["a" * 40, "conv2d", "cpu", "1"]
    assert lines[3:5] == ["bbb", "c" + " " * 41 + lines[2][42:]]
    assert lines[1].endswith("MACs  bytes") and len(lines[1]) == len(lines[2])


def test_requantizations_before_and_after_have_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    content = report([layer("a", None)], 1, {"peak_bytes": 1})
    counts = {"requantizations_before": 3, "requantizations_after": 1}
    content["quantization"] = {"recipe": "bias", "silu": "table", **counts}
    print_table([layer("a", None)], content, "c")
    assert (
        "quantized by recipe bias: 3 requantizations at run time before scales were aligned, 1 "
        "after" in capsys.readouterr().out
    )
