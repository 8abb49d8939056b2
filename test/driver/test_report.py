"""Test the table that ceras-compile prints."""

from ceras_ir.pipeline.report import Entry, LayerEntry, explanations, table
from ceras_ir.targets import Emission


def layer(name: str, reason: str | None, device: str = "cpu") -> Entry:
    return LayerEntry(name, "conv2d", device, reason, 0, 1).to_json()


def content(*layers: Entry) -> Entry:
    return {"layers": list(layers), "totals": {"peak_bytes": 1}}


def test_equal_reasons_share_a_line() -> None:
    rule, other = "channels must be a multiple of 16", "no circuit"
    found = [layer("one", other), *(layer(f"l{i}", rule) for i in range(7)), layer("two", other)]
    assert explanations(found) == [f"7 layers on the cpu: {rule}", f"one, two on the cpu: {other}"]


def test_a_reason_on_two_devices_is_two_lines() -> None:
    found = [layer("a", "slow"), layer("b", "slow", "fpga"), layer("c", None)]
    assert explanations(found) == ["a on the cpu: slow", "b on the fpga: slow"]


def test_brackets_in_names_are_printed() -> None:
    out = table(content(layer("block[0]/[red]conv", "rule [3]")), "vta", Emission([]))
    assert "block[0]/[red]conv  conv2d" in out
    assert "block[0]/[red]conv on the cpu: rule [3]" in out


def test_long_names_go_on_in_the_next_line() -> None:
    out = table(content(layer("a" * 40 + "b" * 3, None), layer("c", None)), "c", Emission([]))
    lines = out.splitlines()
    assert lines[2].split() == ["a" * 40, "conv2d", "cpu", "1"]
    assert lines[3:5] == ["bbb", "c" + " " * 41 + lines[2][42:]]
    assert lines[1].endswith("MACs  bytes") and len(lines[1]) == len(lines[2])


def test_what_a_target_adds_to_some_layers_is_a_column() -> None:
    columns = {"cycles": ("cycles", "{:,}"), "share_of_peak": ("of peak", "{:.1%}")}
    slow = layer("a", None) | {"cycles": 1200, "share_of_peak": 0.5}
    out = table(
        content(slow, layer("b", None)), "vta", Emission([], columns=columns, notes=["a note"])
    )
    lines = out.splitlines()
    assert lines[1].endswith("cycles  of peak") and lines[2].endswith("1,200    50.0%")
    assert lines[4] == "a note"


def test_requantizations_before_and_after_have_a_line() -> None:
    counts = {"requantizations_before": 3, "requantizations_after": 1}
    chosen = {"quantization": {"recipe": ["round-weights"], **counts}}
    out = table(content(layer("a", None)) | chosen, "c", Emission([]))
    assert "requantizations at run time: 1 (3 before scale alignment)" in out
