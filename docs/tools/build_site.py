"""
Build the documentation as an offline site in build/site (`make docs-site`).

The pages and all linked files are copied in the layout of the repository, so that links remain
valid. A gallery of reports is generated. Each warning of MkDocs is an error.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from gallery import write_gallery

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Path(__file__).with_name("site.yml")
PAGES = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("docs/*.md", "examples/**/README.md"),
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s#]+)[^)]*\)")
LEFT_OUT = "docs/package-index.md"
FENCE = re.compile(r"^ *```")
INSIDE = re.compile(r" {2,3}\S")
LIST_ITEM = re.compile(r" *(?:[-*]|\d+\.) ")


Page = dict[str, str]
Section = dict[str, list[Page]]

NAVIGATION: list[Page | Section] = [
    {"ceras_ir": "README.md"},
    {
        "Learn": [
            {"Your first model": "docs/tutorial.md"},
            {"Your first pass": "docs/new-pass.md"},
            {"Your first dialect and operation": "docs/new-operation.md"},
            {"Your first target": "docs/new-target.md"},
            {"Your first board, a microcontroller": "docs/arduino.md"},
            {"Your first board, an FPGA with VTA": "docs/vta-board.md"},
        ]
    },
    {
        "Use": [
            {"Boards": "docs/boards.md"},
            {"Python API": "docs/python-api.md"},
            {"Forests and linear models": "docs/classical-models.md"},
            {"Gallery of reports": "docs/gallery.md"},
            {"Messages and exit statuses": "docs/diagnostics.md"},
            {"Find a wrong pass": "docs/debugging.md"},
            {"Guarantees": "docs/trust.md"},
            {"Security review": "docs/security-review.md"},
            {"Which tool for which task": "docs/comparison.md"},
        ]
    },
    {
        "Understand": [
            {"Architecture": "docs/architecture.md"},
            {"Quantization": "docs/quantization.md"},
            {"Quantization, measured": "docs/quantization-measured.md"},
            {"Attributes of quantization": "docs/quantization-contract.md"},
            {"Functions": "docs/functions.md"},
            {"HardSwish for SiLU": "docs/hardswish.md"},
            {"Quantized models": "docs/quantized-import.md"},
            {"TensorFlow Lite": "docs/tflite.md"},
            {"The quantized graph": "docs/quantized-graph.md"},
            {"Sparse weights": "docs/sparse-weights.md"},
            {"Loops, branches and states": "docs/control-flow.md"},
            {"Memory": "docs/memory.md"},
            {"Verification": "docs/verification.md"},
        ]
    },
    {
        "Targets": [
            {"C on hosts": "docs/c-backend.md"},
            {"C, measured": "docs/c-measured.md"},
            {"C and other runtimes": "docs/peers.md"},
            {"VTA": "docs/vta.md"},
            {"VTA, measured": "docs/vta-measured.md"},
            {"nnet engine": "docs/nnet-engine.md"},
            {"nnet circuits": "docs/nnet-circuits.md"},
            {"dataflow": "docs/dataflow.md"},
            {"Export to ONNX": "docs/onnx-export.md"},
            {"Upstream MLIR": "docs/upstream-mlir.md"},
        ]
    },
    {
        "Reference": [
            {"Commands": "docs/cli.md"},
            {"Passes": "docs/passes.md"},
            {"Dialects": "docs/dialects.md"},
            {"ONNX operators": "docs/supported-operators.md"},
            {"nnet format": "docs/nnet-format.md"},
            {"ONNX conformance": "docs/conformance.md"},
            {"Verified networks": "docs/networks.md"},
            {"Compile time": "docs/compile-time.md"},
        ]
    },
    {"Papers": "docs/papers.md"},
    {"Glossary": "docs/glossary.md"},
    {
        "Project": [
            {"Changes": "CHANGELOG.md"},
            {"Contributing": "CONTRIBUTING.md"},
            {"Stability": "docs/stability.md"},
            {"Security": "SECURITY.md"},
        ]
    },
]
"""Titles and pages in the order of the site. Missing pages form a separate section."""


def page_names() -> list[str]:
    """Return the paths of the pages of the site."""
    found = {p.relative_to(ROOT).as_posix() for pattern in PAGES for p in ROOT.glob(pattern)}
    return sorted(found - {LEFT_OUT})


def stage(folder: Path) -> None:
    """Copy pages and linked files to `folder`."""
    pages = [ROOT / name for name in page_names()]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        _write(folder / page.relative_to(ROOT), python_markdown(text))
        for target in LINK.findall(text):
            linked = (page.parent / target).resolve()
            if "://" not in target and linked not in pages and linked.is_file():
                _copy(linked, folder / linked.relative_to(ROOT))
    _copy(SETTINGS.with_name("iframe-worker.js"), folder / "assets/iframe-worker.js")


def python_markdown(text: str) -> str:
    """
    Adapt a page from CommonMark to Python-Markdown: a list needs an empty line before it, the
    content of an item is indented by four, and a fence has no attributes.
    """
    lines, is_code = list[str](), False
    for line in text.splitlines():
        if FENCE.match(line):
            is_code = not is_code
            line = line.partition(" exit=")[0]
        previous = lines[-1] if lines else ""
        starts_list = LIST_ITEM.match(line) and previous and not previous.startswith(" ")
        if starts_list and not is_code and not LIST_ITEM.match(previous):
            lines.append("")
        if not is_code and INSIDE.match(line) and (LIST_ITEM.match(line) or not previous):
            line = f"    {line.lstrip()}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _copy(source: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, path)


def navigation() -> list[object]:
    """Return `NAVIGATION` and the missing pages."""
    known = re.findall(r'": "([^"]+)"', json.dumps(NAVIGATION))
    rest = [page for page in page_names() if page not in known]
    examples = [page for page in rest if page.startswith("examples/")]
    more = [page for page in rest if page not in examples]
    return [*NAVIGATION, {"Examples": examples}, *([{"More": more}] if more else [])]


def build(output: Path) -> int:
    """Build the site into `output`; return the exit status of MkDocs."""
    source = output.with_name(f"{output.name}-source")
    shutil.rmtree(source, ignore_errors=True)
    stage(source)
    write_gallery(source / "docs")
    added = {"docs_dir": str(source), "site_dir": str(output), "nav": navigation()}
    settings = output.with_name(f"{output.name}.yml")
    # JSON is YAML.
    _write(settings, json.dumps({"INHERIT": str(SETTINGS), **added}, indent=1))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(settings)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    else:
        print(output)
    return done.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the documentation as a site.")
    parser.add_argument("-o", dest="output", type=Path, default=ROOT / "build/site", metavar="DIR")
    return build(parser.parse_args().output.resolve())


if __name__ == "__main__":
    raise SystemExit(main())
