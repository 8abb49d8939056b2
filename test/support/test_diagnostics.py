"""Check that equal findings and equal remarks are printed a single time."""

import pytest

from ceras_ir.support.diagnostics import (
    Finding,
    UnsupportedError,
    did_you_mean,
    each_once,
    remark,
)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("c1", "; did you mean '/c1/Conv'?"),
        ("onv", "; did you mean '/c1/Conv' or '/c10/Conv'?"),
        ("c2", ""),
        ("", ""),
    ],
)
def test_a_part_of_a_name_is_a_hint(name: str, hint: str):
    assert did_you_mean(name, ["/c10/Conv", "/c1/Conv", "/fc/Gemm"]) == hint


def test_equal_findings_are_printed_once():
    """A bidirectional layer is a single node and two operations."""
    gru, conv = Finding("y", "graph.recurrence", "no"), Finding("c", "graph.conv2d", "no")
    lines = UnsupportedError([gru, conv, gru]).lines("model.onnx")
    assert lines == [f"model.onnx: {gru}", f"model.onnx: {conv}"]


def test_equal_remarks_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with each_once():
            for line in ("few samples", "few samples", "no samples"):
                remark(line)
    assert capsys.readouterr().err.splitlines() == ["few samples", "no samples"] * 2
    for _ in range(2):
        remark("few samples")
    assert capsys.readouterr().err.splitlines() == ["few samples"] * 2
