"""Test `ceras-plan` with valid, impossible and malformed instances."""

from pathlib import Path

import pytest

from ceras_ir.workbench.plan import main

GOOD = "id,lower,upper,size\nx,0,2,4\ny,1,3,4\nz,2,4,4\n"


def run(folder: Path, text: str, *arguments: str) -> int:
    source = folder / "in.csv"
    source.write_text(text)
    return main([str(source), "-o", str(folder / "out.csv"), *arguments])


def test_writes_offsets(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(tmp_path, GOOD, "--capacity", "8") == 0
    expected = "3 requests, peak 8 of 8 bytes, lower bound 8, gap 0.00%\n"
    assert capsys.readouterr().out == expected
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "id,lower,upper,size,offset"
    assert [line.rpartition(",")[0] for line in lines[1:]] == GOOD.splitlines()[1:]
    assert main([str(tmp_path / "out.csv"), "--capacity", "8", "--check"]) == 0
    assert capsys.readouterr().out == expected


def test_proves_that_there_is_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(tmp_path, GOOD, "--capacity", "7") == 1
    assert "impossible in 7 bytes: 8 bytes are live at a time" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


def test_gives_up_in_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rows = [f"{i},{i % 7},{i % 7 + 1 + i % 4},{3 + i * i % 41}" for i in range(120)]
    text = "\n".join(["id,lower,upper,size", *rows])
    bound = _bound(rows)
    assert run(tmp_path, text, "--capacity", str(bound), "--time-limit", "0.000001") == 4
    assert "not solved in 1e-06 s" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.slow
def test_many_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A greedy plan is found at once; otherwise there are too many requests for the search."""
    rows = [f"{i},{i % 997},{i % 997 + 1 + i % 4},{3 + i * i % 41}" for i in range(2500)]
    text = "\ufeff" + "\r\n".join(["id,lower,upper,size", *rows])
    assert run(tmp_path, text, "--capacity", "1000") == 0
    assert run(tmp_path, text, "--capacity", str(_bound(rows, 1001))) == 4
    assert "the search takes at most 2,000 requests, got 2,500" in capsys.readouterr().err


def _bound(rows: list[str], end: int = 12) -> int:
    cells = [tuple(map(int, row.split(","))) for row in rows]
    return max(sum(s for _, a, b, s in cells if a <= t < b) for t in range(end))


def test_a_wrong_plan_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "plan.csv"
    path.write_text("id,lower,upper,size,offset\nx,0,2,4,0\ny,1,3,4,2\n")
    assert main([str(path), "--capacity", "8", "--check"]) == 1
    assert "ids x and y share bytes while both are alive" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "expected columns id,lower,upper,size, got ''"),
        (f"id,lower,upper,size\n{'9' * 200_000},0,1,1", "2: error: not a table: field larger"),
        (f"id,lower,upper,size\nx,0,1,{'9' * 6000}", f"size is no integer: '{'9' * 40}'"),
        ("id,lower,size\n", "expected columns id,lower,upper,size, got 'id,lower,size'"),
        ("id,lower,upper,size\n0,1,2\n", ":2: error: expected 4 fields, got 3"),
        ("id,lower,upper,size\n0,1,x,3\n", ":2: error: upper is no integer: 'x'"),
        ("id,lower,upper,size\n0,1,1,3\n", ":2: error: id 0: lower 1 is not below upper"),
        ("id,lower,upper,size\n0,1,2,-3\n", ":2: error: id 0: size -3 is below 0"),
        ("id,lower,upper,size\n0,1,2,3\n0,1,2,3\n", ":3: error: id 0 occurs twice"),
        (f"id,lower,upper,size\n0,1,2,{1 << 63}\n", "exceeds 2^62 in magnitude"),
    ],
)
def test_malformed(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str):
    assert run(tmp_path, text, "--capacity", "8") == 1
    assert message in capsys.readouterr().err


def test_no_such_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(tmp_path / "no.csv"), "--capacity", "8", "-o", str(tmp_path / "o.csv")]) == 1
    assert "no.csv: error: No such file" in capsys.readouterr().err
