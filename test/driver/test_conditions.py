"""Test `--fail-if`: the syntax of conditions, and the gate of `ceras-compile`."""

import argparse
import json
from math import inf, nan
from pathlib import Path

import pytest
from conftest import Tool
from driver_networks import MIXING

from ceras_ir.command.conditions import (
    BYTES,
    COUNT,
    DECIBELS,
    MICROSECONDS,
    SHARE,
    Quantity,
    Value,
    check_conditions,
    condition,
    met_conditions,
)
from ceras_ir.support.diagnostics import UsageError

METRICS = {
    "flash_bytes": BYTES,
    "latency_us": MICROSECONDS,
    "latency_cycles": COUNT,
    "agreement": SHARE,
    "ratio_db": DECIBELS,
}


def met(text: str, *values: Value) -> list[str]:
    """Return the messages about one condition."""
    return list(met_conditions([condition(text)], values, METRICS))


@pytest.mark.parametrize(
    ("text", "quantity", "limit"),
    [
        ("flash>64K", BYTES, 65536),
        ("flash > 64 kib", BYTES, 65536),
        ("flash>=1.5M", BYTES, 1572864),
        ("flash>100", BYTES, 100),
        ("latency_us>500us", MICROSECONDS, 500),
        ("latency_us>2s", MICROSECONDS, 2e6),
        ("latency_us>.5", MICROSECONDS, 0.5),
        ("agreement<98%", SHARE, 0.98),
        ("ratio_db<-1e1dB", DECIBELS, -10),
    ],
)
def test_limits_with_units(text: str, quantity: Quantity, limit: float) -> None:
    assert condition(text).limit(quantity) == limit


@pytest.mark.parametrize(
    "text",
    ["", "flash", "flash>", ">1", "flash=1", "flash==1", "flash>K", "flash<>1", "flash>1e999"],
)
def test_wrong_syntax(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        condition(text)


@pytest.mark.parametrize(
    ("relation", "below", "equal", "above"),
    [("<", True, False, False), ("<=", True, True, False), (">", False, False, True),
     (">=", False, True, True)],
)  # fmt: skip
def test_relations(relation: str, below: bool, equal: bool, above: bool) -> None:
    for number, expected in ((63 * 1024, below), (65536, equal), (65537, above)):
        assert bool(met(f"flash{relation}64K", Value("flash_bytes", number))) is expected


def test_a_message_has_the_value_the_limit_and_the_condition() -> None:
    assert met("flash>64K", Value("flash_bytes", 71234)) == [
        '--fail-if "flash>64K": flash_bytes = 71,234 bytes, above the limit of 65,536 bytes'
    ]
    assert met("latency_us>=9ms", Value("latency_us", 9249.29)) == [
        '--fail-if "latency_us>=9ms": latency_us = 9,249.29 us, not below the limit of 9,000 us'
    ]
    assert met("ratio dB>1", Value("ratio_db", inf)) == [
        '--fail-if "ratio dB>1": ratio_db = infinite, above the limit of 1 dB'
    ]


def test_each_output_and_network_is_checked() -> None:
    values = [
        Value("agreement", 0.9, "a", "int8"),
        Value("agreement", 0.8, "b", "int8"),
        Value("agreement", 0.7, "a", "int16"),
    ]
    found = met("Agreement < 0.85", *values)
    assert [line.partition(" = ")[0] for line in found] == [
        '--fail-if "Agreement < 0.85": int8: b: agreement',
        '--fail-if "Agreement < 0.85": int16: a: agreement',
    ]
    assert len(met("a: agreement<0.85", *values)) == 1
    with pytest.raises(UsageError, match=r"not measured in this run \(measured: a: agreement, b:"):
        met("c: agreement<0.85", *values)


def test_a_value_that_is_no_number_is_not_measured() -> None:
    with pytest.raises(
        UsageError, match=r"'ratio_db' was not measured .*\(measured: flash_bytes\)"
    ):
        met("ratio_db<20", Value("ratio_db", nan), Value("flash_bytes", 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flsh_bytes>1", r"unknown metric 'flsh_bytes'; did you mean 'flash_bytes'\? \(known: fla"),
        ("time>1", r"unknown metric 'time' \(known: flash_bytes, latency_us, "),
        ("latency>1", "'latency' may be latency_us or latency_cycles"),
        ("flash>1ms", "'flash' has no unit 'ms'; units: B, K, KiB, M, MiB"),
        ("flash>64KB", "'flash' has no unit 'KB'; write 64KiB; units: B, K, KiB, M, MiB"),
        ("flash>1.5mb", "'flash' has no unit 'mb'; write 1.5MiB; units"),
        ("other>1K", "'other' has no unit 'K'; units: %"),
    ],
)
def test_metrics_and_units_are_checked_before_the_work(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_conditions([condition(text)], METRICS, lambda name: name == "other")


COMPILE = ("ceras-compile", "n.mlir", "--target", "c", "-o", "out")


def test_the_folder_is_complete_if_a_condition_is_met(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "n.mlir").write_text(MIXING)
    passes = ("--fail-if", "flash>1M", "--fail-if", "latency_us>1s")
    done = tool(*COMPILE, *passes, "--fail-if", "weight>=1", "--fail-if", "macs > 10")
    assert done.status == 1 and "compiled for c" in done.stdout
    totals = json.loads((tmp_path / "out" / "report.json").read_text())["totals"]
    weights, macs = totals["weight_bytes"], totals["macs"]
    assert done.stderr.splitlines() == [
        f'ceras-compile: error: --fail-if "weight>=1": weight_bytes = {weights:,} bytes, not below '
        "the limit of 1 bytes",
        f'ceras-compile: error: --fail-if "macs > 10": macs = {macs:,}, above the limit of 10',
    ]
    # The folder has the digests of all files.
    assert tool("ceras-compile", "n.mlir", "--target=c", "-o", "out", *passes).status == 0
    assert (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize("text", ["flsh>1", "flash=1", "flash>1ms"])
def test_wrong_conditions_write_nothing(tool: Tool, tmp_path: Path, text: str) -> None:
    (tmp_path / "n.mlir").write_text(MIXING)
    done = tool(*COMPILE, "--fail-if", text)
    assert (done.status, done.stdout) == (2, "") and text in done.stderr
    assert ("did you mean 'flash'?" in done.stderr) is text.startswith("flsh")
    assert not (tmp_path / "out").exists()


@pytest.mark.needs("onnx")
def test_a_metric_without_a_value_is_wrong_usage(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "n.mlir").write_text(MIXING)
    done = tool(
        "ceras-compile", "n.mlir", "--target", "onnx", "-o", "out", "--fail-if", "latency_us>1"
    )
    assert (done.status, done.stdout) == (2, "")
    assert (
        "'latency_us' was not measured in this run (measured: macs, weight_bytes, req"
        in done.stderr
    )
    assert not (tmp_path / "out").exists()
