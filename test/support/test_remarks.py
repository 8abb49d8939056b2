"""Remarks of passes: equal ones are printed once in a run, and again in the next."""

import pytest

from ceras_ir.support.diagnostics import each_once, remark


def test_equal_remarks_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with each_once():
            for line in ("few samples", "few samples", "no samples"):
                remark(line)
    assert capsys.readouterr().err.splitlines() == ["few samples", "no samples"] * 2


def test_without_a_run_every_remark_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        remark("few samples")
    assert capsys.readouterr().err.splitlines() == ["few samples"] * 2
