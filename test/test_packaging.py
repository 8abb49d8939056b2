"""Check that tables of files match the tree, and that the imported modules remain few."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from package_page import absolute
from xdsl.universe import Universe

from ceras_ir import universe
from ceras_ir.driver.opt.argv import make_parser

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_file_is_in_a_package_or_is_listed_as_data():
    """Packages are discovered: folders with an `__init__.py`, in such folders."""
    listed = PROJECT["tool"]["setuptools"]["package-data"]
    for path in (ROOT / "ceras_ir").rglob("*"):
        is_module = path.suffix == ".py" and (path.parent / "__init__.py").exists()
        if path.is_dir() or "__pycache__" in path.parts or is_module:
            continue
        packages = [p for p in path.parents if (p / "__init__.py").exists()]
        files = {f for p in packages for pattern in listed["*"] for f in p.glob(pattern)}
        # Before Python 3.13, the `**` of a folder matches only folders.
        files |= {f for folder in files if folder.is_dir() for f in folder.iterdir()}
        assert path in files, f"{path.relative_to(ROOT)} is not in package-data"


def test_every_script_has_its_main():
    scripts = dict(PROJECT["project"]["scripts"])
    assert callable(import_module("ceras_ir.command.dispatch").main)
    assert scripts.pop("ceras") == "ceras_ir.command.dispatch:main"
    for script, target in scripts.items():
        module, attribute = target.split(":")
        command = getattr(import_module(module), attribute)
        assert command.name == script
        assert callable(import_module(command.module).main)
    for file in (ROOT / "tools").glob("*.py"):
        assert file.stem.replace("_", "-") in PROJECT["project"]["scripts"]


def test_every_pass_in_the_tree_is_in_the_table():
    found = set[str]()
    for path in (ROOT / "ceras_ir").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        names = re.findall(r"^class (\w+Pass)\b", path.read_text(encoding="utf-8"), re.MULTILINE)
        found.update(f"{module}:{name}" for name in names)
    # These are base classes of other passes.
    found -= {
        "ceras_ir.transforms.pass_kinds:FloatNetworkPass",
        "ceras_ir.transforms.pass_kinds:NetworkPass",
        "ceras_ir.transforms.pass_kinds:PatternPass",
        "ceras_ir.transforms.pass_kinds:PipelinePass",
        "ceras_ir.transforms.pass_kinds:RulePass",
        "ceras_ir.transforms.quantization.analysis.calibration:CalibratedPass",
        "ceras_ir.transforms.quantization.residuals:ResidualSpreadPass",
    }
    assert set(universe.pass_paths().values()) == found
    listed = [(package, name) for package, names in universe.PASSES.items() for name in names]
    assert listed == sorted(listed)


def test_the_tables_load():
    for name, factory in universe.CERAS_UNIVERSE.all_dialects.items():
        assert factory().name == name
    for name, factory in universe.CERAS_UNIVERSE.all_passes.items():
        assert factory().name == name
        assert factory().__doc__, f"{name} does not say what it does"
    for name, factory in universe.CERAS_UNIVERSE.all_targets.items():
        assert factory().name == name


def test_no_pass_hides_an_option():
    passes = Universe.get_multiverse().all_passes
    options = {o for a in make_parser().visible_actions() for o in a.option_strings}
    assert not options & {f"--{name}" for name in passes}


def test_starting_up_imports_nothing_heavy():
    code = (
        "import sys, contextlib; from ceras_ir.driver.opt.tool import main\n"
        "with contextlib.suppress(SystemExit): main(['--version'])\n"
        "print(sorted({'numpy', 'onnx', 'onnxruntime', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.endswith("\n[]\n"), done.stdout


def test_links_of_the_description_survive_on_a_package_index():
    page = ROOT / PROJECT["project"]["readme"]
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    assert targets and all(target.startswith("https://") for target in targets), targets
    links = "![p](a.svg)\n[c](b.md#x), [b.md](b.md), [d](https://d)"
    assert absolute(links, None) == "c (`b.md`), `b.md`, [d](https://d)"
    assert "](https://e/blob/main/a.svg)" in absolute(links, "https://e/")


@pytest.mark.slow
def test_a_source_distribution_has_the_documentation(tmp_path: Path):
    tree = tmp_path / "tree"
    skipped = shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "*.egg-info", "Output")
    shutil.copytree(ROOT, tree, ignore=skipped)
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=tree, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs/images").iterdir()]
    wanted += [ROOT / name for name in ("CITATION.cff", "README.md", "examples/digits/digits.onnx")]
    assert not {path.relative_to(ROOT).as_posix() for path in wanted} - names
    assert not [name for name in names if "__pycache__" in name]


def test_the_citation_has_the_version_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {PROJECT['project']['version']}\n" in citation


def test_the_changelog_has_a_section_for_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\S+)", changelog, re.MULTILINE)
    assert headings[:2] == ["Unreleased", PROJECT["project"]["version"]]


def test_the_supported_releases_of_xdsl_are_those_that_ci_tests():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    releases = re.search(r"^XDSL := 0\.(\d+) 0\.(\d+)$", makefile, re.MULTILINE)
    assert releases
    first, last = map(int, releases.groups())
    assert last == first + 1
    assert f"xdsl>=0.{first},<0.{last + 1}" in PROJECT["project"]["dependencies"]
    assert "test-xdsl" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_the_workflow_runs_what_ci_runs():
    steps = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    for command in re.findall(r"run: (.+)", steps):
        file, _, target = command.partition(" ")
        made = file == "make" and f"\n{target}:" in (ROOT / "Makefile").read_text()
        assert made or (ROOT / file).exists(), command


START = """
import runpy, sys
from pathlib import Path
sys.path[:1] = [str(Path(sys.argv[1]).parent)]
runpy.run_path(sys.argv[1], run_name="imported")
"""
"""Import a script with the module search path that Python has if it runs the script."""

RUNS = re.compile(r"/python (?:-W ignore )?([\w/]+\.py)")
MAKEFILE_SCRIPTS = sorted(set(RUNS.findall((ROOT / "Makefile").read_text(encoding="utf-8"))))


@pytest.mark.slow
@pytest.mark.parametrize("script", MAKEFILE_SCRIPTS)
def test_scripts_of_the_makefile_find_their_modules(script: str) -> None:
    subprocess.run([sys.executable, "-c", START, ROOT / script], check=True, capture_output=True)


def test_system_packages_names_what_is_missing():
    script = ROOT / "tools/system_packages.sh"
    table = re.search(r"^tools='\n(.*?)\n'$", script.read_text(), re.DOTALL | re.MULTILINE)
    assert table
    lines = [line.split(":") for line in table[1].split("\n")]
    # An apostrophe in the table would terminate it early.
    assert len(lines) > 10 and all(len(line) == 3 for line in lines)
    done = subprocess.run(
        ["/bin/sh", str(script), "report"],
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    )
    told = [f"{loss} (needs {command}: apt-get install {p})" for command, p, loss in lines]
    assert done.stdout.splitlines()[1:] == told
    assert not done.stderr
