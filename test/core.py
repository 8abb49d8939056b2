"""
Delete extensions in a copy of the project, and run the tests of the core there.

    python test/core.py [EXTENSION ...] [-- PYTEST-ARGUMENTS]

deletes each extension and then all of them, or only the named extensions, together. The copy has no
other changes. `make core` calls this program. Tests that use an extension are in the folders below,
or have the marker `needs` (pytest) or a condition on it (lit). Tests of the entire project are
skipped.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

EXTENSIONS = {
    "dataflow": (
        "ceras_ir/backends/dataflow",
        "test/backends/dataflow",
        "test/backends/dataflow_driver",
        "test/dataflow_circuits.py",
        "test/dataflow_samples.py",
        "test/lit/backends/dataflow",
    ),
    "mlir": ("ceras_ir/backends/mlir", "test/backends/mlir", "test/lit/backends/mlir"),
    "nnet": (
        "ceras_ir/backends/nnet",
        "test/backends/nnet",
        "test/backends/nnet_driver",
        "test/lit/backends/nnet",
    ),
    "onnx": ("ceras_ir/backends/onnx", "test/backends/onnx", "test/lit/backends/onnx"),
    "keras": ("ceras_ir/frontends/keras", "test/frontends/keras"),
    "pytorch": ("ceras_ir/frontends/pytorch", "test/frontends/pytorch"),
    "tflite": (
        "ceras_ir/frontends/tflite",
        "test/frontends/tflite",
        "test/tflite_cases.py",
        "test/tflite_files.py",
    ),
    "tosa": (
        "ceras_ir/frontends/tosa",
        "test/frontends/tosa",
        "test/tosa_cases.py",
        "test/tosa_texts.py",
    ),
    "vta": (
        "ceras_ir/backends/vta",
        "ceras_ir/dialects/tile",
        "test/backends/vta",
        "test/backends/vta_driver",
        "test/backends/vta_lowering",
        "test/lit/backends/vta",
    ),
    "workbench": ("ceras_ir/workbench", "test/workbench"),
}
"""Map an extension to the folders and files that are deleted with it."""

COMMANDS = {
    **dict.fromkeys(
        [
            *("ceras-compare", "ceras-completion", "ceras-explore", "ceras-lsp", "ceras-new"),
            *("ceras-plan", "ceras-reduce", "ceras-report", "ceras-retrain"),
        ],
        "workbench",
    ),
    "ceras-nnet": "nnet",
    "ceras-vta": "vta",
}
"""Map a command to the extension that provides it."""

WHOLE_PROJECT = (
    "test/test_benchmarks.py",
    "test/test_core.py",
    "test/test_docs.py",
    "test/test_faults.py",
    "test/test_fuzz_options.py",
    "test/test_hostile_inputs.py",
    "test/test_layers.py",
    "test/test_mutants.py",
    "test/test_security_page.py",
    "test/test_notebooks.py",
    "test/test_new_function.py",
    "test/test_packaging.py",
    "test/test_proofs.py",
    "test/test_site.py",
)
"""Tests about all folders of the project, its documentation and its tables."""

COPIED = ("benchmarks", "ceras_ir", "docs", "examples", "test", "tools", "pyproject.toml")

SITE = """\
# An editable installation would find what was deleted.
import sys

sys.meta_path[:] = [
    f for f in sys.meta_path if not getattr(f, "__module__", "").startswith("__editable__")
]
"""


@contextmanager
def core(deleted: Iterable[str]) -> Generator[Path]:
    """Create a copy of the project without these extensions."""
    with tempfile.TemporaryDirectory(prefix="ceras-core-") as name:
        folder = Path(name)
        skipped = shutil.ignore_patterns("__pycache__", "Output", ".*")
        for each in COPIED:
            if (ROOT / each).is_dir():
                shutil.copytree(ROOT / each, folder / each, ignore=skipped)
            else:
                shutil.copy(ROOT / each, folder / each)
        for path in [folder / path for extension in deleted for path in EXTENSIONS[extension]]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        (folder / "sitecustomize.py").write_text(SITE)
        yield folder


def run(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python with the copy of the package in `folder`."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test(deleted: Sequence[str], more: Sequence[str]) -> bool:
    """Run lit and pytest without these extensions; return whether all tests pass."""
    print(f"without {', '.join(deleted)}", flush=True)
    lit = "from lit.main import main; main()"
    with core(deleted) as folder:
        ignored = [f"--ignore={path}" for path in WHOLE_PROJECT]
        done = [
            run(folder, "-c", lit, "-q", "-j2", "--timeout=300", "-Dforked=1", "test/lit"),
            run(folder, "-m", "pytest", "-q", "--forked", *ignored, *more, "test"),
        ]
    for each in done:
        print(each.stdout[-4000:], each.stderr[-4000:], flush=True)
    return all(each.returncode == 0 for each in done)


def main(argv: Sequence[str]) -> int:
    names, more = list(argv), list[str]()
    if "--" in names:
        place = names.index("--")
        names, more = names[:place], names[place + 1 :]
    everything = [[name] for name in EXTENSIONS] + [list(EXTENSIONS)]
    results = [test(deleted, more) for deleted in ([names] if names else everything)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
