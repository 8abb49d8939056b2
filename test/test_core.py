"""Check that the core works without extensions: `core.py` deletes them in a copy."""

import filecmp
from collections.abc import Iterator
from pathlib import Path

import core
import pytest

CHOICES = [pytest.param((name,), id=name, marks=pytest.mark.slow) for name in core.EXTENSIONS] + [
    pytest.param(tuple(core.EXTENSIONS), id="all")
]

DIGITS = core.ROOT / "examples" / "digits"
NETWORK = (DIGITS / "digits.onnx", "--calibrate", DIGITS / "digits_calibration.npz")

IMPORT_ALL = """
import pkgutil, ceras_ir
for module in pkgutil.walk_packages(ceras_ir.__path__, "ceras_ir."):
    try:
        __import__(module.name)
    except ModuleNotFoundError as error:
        assert not error.name.startswith("ceras_ir"), error
"""


@pytest.fixture(scope="module", params=CHOICES)
def deleted(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return the extensions that are deleted."""
    return request.param


@pytest.fixture(scope="module")
def folder(deleted: tuple[str, ...]) -> Iterator[Path]:
    with core.core(deleted) as folder:
        yield folder


def succeed(folder: Path, *words: str | Path) -> str:
    """Run Python in a copy of the project, and return stdout; the status must be 0."""
    done = core.run(folder, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.sample(4)
@pytest.mark.slow
def test_everything_that_is_left_can_be_imported(folder: Path):
    succeed(folder, "-c", IMPORT_ALL)


@pytest.mark.sample(4)
def test_c_is_the_same_to_the_byte(folder: Path, tmp_path: Path):
    made, expected = tmp_path / "made", tmp_path / "expected"
    command = ("-m", "ceras_ir", "compile", *NETWORK, "--target", "c", "-o")
    succeed(folder, *command, made)
    succeed(core.ROOT, *command, expected)
    names = [path.name for path in expected.iterdir()]
    assert len(names) > 5 and sorted(path.name for path in made.iterdir()) == sorted(names)
    assert filecmp.cmpfiles(made, expected, names, shallow=False) == (names, [], [])


@pytest.mark.sample(4)
@pytest.mark.slow
def test_levels_and_machine_agree(folder: Path):
    command = ("-m", "ceras_ir", "verify", *NETWORK, "--targets", "c", "--no-reference")
    lines = succeed(folder, *command).splitlines()
    assert next(line for line in lines if line.startswith("c: machine")).endswith("exact")


@pytest.mark.sample(4)
@pytest.mark.slow
def test_lit_cases_of_the_core_pass(folder: Path):
    lit = "from lit.main import main; main()"
    succeed(folder, "-c", lit, "-q", "-Dforked=1", "test/lit/transforms/placement")


@pytest.mark.sample(4)
def test_what_was_deleted_is_not_offered(folder: Path, deleted: tuple[str, ...], tmp_path: Path):
    commands = succeed(folder, "-m", "ceras_ir")
    assert ("  nnet " in commands) == ("nnet" not in deleted)
    assert ("  compare " in commands) == ("workbench" not in deleted)
    targets = succeed(folder, "-c", "import ceras_ir; print(*ceras_ir.target_names())").split()
    assert {"arduino", "c", "interp"} <= set(targets) and not set(targets) & set(deleted)
    if "workbench" in deleted:
        command = ("-m", "ceras_ir", "compile", *NETWORK, "--target", "c", "-o", tmp_path / "out")
        refused = core.run(folder, *command, "--report")
        assert refused.returncode == 2 and "--report is unsupported here" in refused.stderr
        assert "the extension workbench, which offers 'report'" in refused.stderr
        assert "run 'pip install .'" in refused.stderr
        assert not (tmp_path / "out").exists()
