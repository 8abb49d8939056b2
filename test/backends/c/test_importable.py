"""Test `--python-wrapper`: a compiled folder is a Python module, with numpy and a C compiler."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import Result, Tool
from recurrent_networks import NETWORKS, sequence

pytestmark = pytest.mark.slow

DIGITS = Path(__file__).parents[3] / "examples/digits"
INT8 = ("--calibrate", str(DIGITS / "digits_calibration.npz"))

PROGRAM = """\
import numpy as np
import net
data = np.load("in.npz")["image"]
results = [net.run({"image": image})["probabilities"] for image in data]
np.savez("mine.npz", probabilities=np.stack(results))
"""


def python(folder: Path, text: str, **environment: str) -> Result:
    """Run a separate program, isolated from this project."""
    kept = {k: v for k, v in os.environ.items() if k not in ("CC", "CFLAGS", "PYTHONPATH")}
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=folder, env=kept | environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    return Result(done.returncode, done.stdout, done.stderr)


def compiled(tool: Tool, *more: str) -> None:
    options = ["--target", "c", "--python-wrapper", *INT8, *more, "-o", "net"]
    done = tool("ceras-compile", DIGITS / "digits.onnx", *options)
    assert done.status == 0, done.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "more",
    [
        ("--name", "digits", "--weights", "file"),
        ("--weights", "incbin"),
        ("--regions", "fast:4096,slow:1000000"),
    ],
)
def test_the_folder_is_a_module(tool: Tool, tmp_path: Path, more: tuple[str, ...]):
    """The module equals the interpreter, the library is stored, and the folder still runs."""
    compiled(tool, *more)
    images = np.random.default_rng(0).random((3, 1, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "in.npz", image=images)
    np.savez(tmp_path / "ours.npz", image=images[:, 0])
    done = python(tmp_path, PROGRAM)
    assert done.status == 0, done.stderr
    ends = ["--inputs", "ours.npz", "--outputs", "theirs.npz"]
    assert tool("ceras-run", DIGITS / "digits.onnx", "--target", "interp", *INT8, *ends).status == 0
    mine, theirs = (np.load(tmp_path / f"{n}.npz")["probabilities"] for n in ("mine", "theirs"))
    assert mine.tobytes() == theirs.tobytes() and mine.any()
    # The rest runs without a compiler.
    assert python(tmp_path, PROGRAM, PATH="").status == 0
    assert len(list((tmp_path / "net/__pycache__").glob("*.so"))) == 1
    assert tool("ceras-run", "net", *ends).status == 0


def test_mistakes_are_one_clear_error(tool: Tool, tmp_path: Path):
    compiled(tool)
    done = python(tmp_path, "import net", PATH="")
    assert done.status == 1
    assert done.stderr.splitlines()[-1].endswith(
        "no C compiler to build it with: install gcc or clang, or name one in CC"
    )
    done = python(tmp_path, "import net", CC="no-such-cc")
    assert "cannot run the C compiler 'no-such-cc': No such file or directory" in done.stderr
    assert "During handling" not in done.stderr
    for call, message in (
        ("{}", "inputs are 'image' (float32["),
        ("{'image': np.zeros((8, 8), np.float32)}", "got float32[8, 8]"),
        ("{'image': np.zeros(net.INPUTS[0].shape)}", "got float64["),
        ("{'image': 1, 'other': 2}", "got 'image', 'other'"),
        ("np.zeros((1, 1, 8, 8))", "such as run({'image': array}); got ndarray"),
    ):
        done = python(tmp_path, f"import net, numpy as np; net.run({call})")
        assert done.status == 1 and message in done.stderr.splitlines()[-1], done.stderr
    header = tmp_path / "net/model.h"
    header.write_text(header.read_text() + "\n")
    done = python(tmp_path, "import net")
    assert "model.h: not the file that was compiled; compile again" in done.stderr


def test_states_begin_anew_when_reset(tool: Tool, tmp_path: Path):
    (tmp_path / "gru.onnx").write_bytes(NETWORKS["gru"]().SerializeToString())
    np.savez(tmp_path / "in.npz", x=sequence("gru")[:, 0])
    options = ["--target", "c", "--python-wrapper", "--state", "h=hn", "--calibrate", "in.npz"]
    assert tool("ceras-compile", "gru.onnx", *options, "-o", "net").status == 0
    assert tool("ceras-run", "net", "--inputs", "in.npz", "--outputs", "c.npz").status == 0
    done = python(
        tmp_path,
        "import net, numpy as np\n"
        "data, wanted = np.load('in.npz')['x'], np.load('c.npz')['y']\n"
        "network = net.Network()\n"
        "for _ in range(2):\n"
        "    network.reset()\n"
        "    found = [network.run({'x': x[np.newaxis]})['y'] for x in data]\n"
        "    assert np.concatenate(found).tobytes() == wanted.tobytes()\n"
        "assert network.run({'x': data[:1]})['y'].tobytes() != found[0].tobytes()\n",
    )
    assert done.status == 0, done.stderr


def test_threads_have_memory_of_their_own(tool: Tool, tmp_path: Path):
    compiled(tool)
    done = python(
        tmp_path,
        "import net, numpy as np\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "rng = np.random.default_rng(0)\n"
        "data = [rng.random(net.INPUTS[0].shape).astype(np.float32) for _ in range(200)]\n"
        "alone = [net.run({'image': x})['probabilities'] for x in data]\n"
        "with ThreadPoolExecutor(4) as pool:\n"
        "    shared = list(pool.map(lambda x: net.run({'image': x})['probabilities'], data))\n"
        "assert all((a == b).all() for a, b in zip(alone, shared))\n"
        "assert len({a.tobytes() for a in alone}) > 100\n",
    )
    assert done.status == 0, done.stderr
