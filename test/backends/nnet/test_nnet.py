"""Run `ceras-nnet` on files of this compiler and on damaged files."""

from pathlib import Path

import numpy as np
import pytest
from backends.nnet.networks import written
from graph_networks import Network, random_array

from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.backends.nnet.tool import main
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, UniformType

INT8 = UniformType(0.5)


def network(folder: Path, name: str, shift: int, seed: int = 0) -> str:
    net = Network([((1, 5, 5, 4), INT8)])
    weights = net.constant(random_array((3, 2, 2, 4), INT8, seed), INT8)
    op = graph.Conv2dOp(net.inputs[0], weights, result_element=INT8, requant=RequantAttr(shift))
    path = folder / name
    path.write_bytes(written(net.module(net.add(op, FPGA))))
    return str(path)


def test_dump_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = network(tmp_path, "a.nnet", 4)
    assert main(["check", file]) == 0
    assert capsys.readouterr().out.startswith("valid: 1 layers, 1 of them on the FPGA, arena ")
    assert main(["dump", file]) == 0
    assert "conv2d on fpga" in capsys.readouterr().out
    assert main(["dump", "--bytes", file]) == 0
    assert "magic" in capsys.readouterr().out


def test_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    a, same = network(tmp_path, "a.nnet", 4), network(tmp_path, "same.nnet", 4)
    assert main(["diff", a, same]) == 0
    assert capsys.readouterr().out == ""
    assert main(["diff", a, network(tmp_path, "b.nnet", 5)]) == 1
    lines = capsys.readouterr().out.splitlines()
    changed = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert len(changed) == 2 and ">> 4" in changed[0] and ">> 5" in changed[1]
    assert main(["diff", a, network(tmp_path, "c.nnet", 4, seed=1)]) == 1
    assert "crc" in capsys.readouterr().out


def test_a_damaged_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = Path(network(tmp_path, "a.nnet", 4))
    data = np.frombuffer(path.read_bytes(), np.uint8).copy()
    data[-1] ^= 1
    path.write_bytes(data.tobytes())
    for command in (["check"], ["dump"], ["dump", "--bytes"]):
        assert main([*command, str(path)]) == 1
        assert f"{path}: error: not a valid nnet file" in capsys.readouterr().err
