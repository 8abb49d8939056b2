"""Check the documentation: pages match the code, examples run, and links have a target."""

import dataclasses
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from generate import PRINTED, WITH_EXAMPLES
from run_examples import ExampleFailedError, refresh

from ceras_ir import universe
from ceras_ir.driver.opt.modes import summary
from ceras_ir.pipeline.stages import BuildOptions, front_stages, target_stages
from ceras_ir.support.options import field_docs
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import find_target

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "docs/images/*.svg", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
MACHINE = re.compile(r"file://|/(?:work|home|root|tmp|opt|Users)/|[A-Z]:\\\\|https?://[^/\s]*pypi")

TOLD = ("compiles", "verified_by_default", "runs_natively", "board_suffixes", "board_name", "name")
"""Fields of a target, in addition to the methods that the architecture page lists."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def check(*pages: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs/tools/generate.py", "--check", *pages],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nregenerate with `make docs`"


def test_pages_printed_from_the_code_are_current():
    check(*PRINTED)


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_examples_run_and_print_what_the_page_shows(page: str):
    check(page)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), f"{name(page)} links to {target}"
        if anchor:
            assert anchor in headings(linked), f"{name(page)} links to {target}"


def headings(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub computes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_paths_of_some_machine(page: Path):
    found = MACHINE.search(page.read_text(encoding="utf-8"))
    assert found is None, f"{name(page)}: {found}"


WIDTH = 120


def test_lines_are_wrapped():
    """Except tables, which Markdown cannot wrap, and code, which shows printed output."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if page.suffix != ".md" or text.startswith("<!-- "):
            continue
        text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.M | re.S)
        prose = [line for line in text.splitlines() if not line.startswith(("|", "    ", "!["))]
        wide = [line for line in prose if len(line) > WIDTH]
        assert not wide, f"{name(page)}: {len(wide)} lines, such as {wide[0]}"


NO_VERB = {
    *("A", "All", "An", "Any", "As", "At", "Each", "Every", "For", "From", "How", "If", "In"),
    *("It", "Its", "Of", "On", "One", "That", "The", "These", "This", "To", "What", "When"),
    *("Where", "Whether", "Which", "Who", "With"),
}
"""First words of a line that does not start with a verb."""


def test_a_pass_says_what_it_does_with_a_verb_and_its_object():
    for pass_name, load in universe.CERAS_UNIVERSE.all_passes.items():
        first = summary(load())
        verb, _, rest = first.partition(" ")
        assert verb.isalpha() and verb.istitle() and rest, f"{pass_name}: {first}"
        assert verb not in NO_VERB and not verb.endswith(("s", "ing")), f"{pass_name}: {first}"
        assert len(first) <= 160, f"{pass_name}: {len(first)} characters: {first}"


def test_every_option_of_a_pass_says_what_it_means():
    for pass_name, load in universe.CERAS_UNIVERSE.all_passes.items():
        options = [f.name for f in dataclasses.fields(load()) if f.init and f.name != "name"]
        missing = {*options} - field_docs(load()).keys()
        assert not missing, f"{pass_name}: write a string under {sorted(missing)}"


def test_every_command_is_described():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    reference = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    for command in project["project"]["scripts"]:
        assert f"## {command}\n" in reference, f"add {command} to docs/tools/cli_page.py"


def test_every_level_is_in_the_picture():
    picture = (ROOT / "docs/images/levels.svg").read_text(encoding="utf-8")
    for target in ("c", "nnet", "vta"):
        options = BuildOptions(find_target(target)(), quantize="int8", has_blocks=False)
        for stage in [*front_stages(options), *target_stages(options)]:
            assert f">{stage.level}<" in picture, f"draw {stage.level} in levels_picture.py"


def test_readme_quotes_the_example_pass():
    source = (ROOT / "examples/plugin/swap_function.py").read_text(encoding="utf-8")
    quoted = source[source.index("@dataclass") :]
    assert f"```python\n{quoted}```" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_pages_quote_the_examples():
    page = (ROOT / "docs/new-pass.md").read_text(encoding="utf-8")
    source = (ROOT / "examples/plugin/sink_lookup.py").read_text(encoding="utf-8")
    assert f"```python\n{source[source.index('class SinkLookup(') :]}```" in page
    tested = (ROOT / "test/lit/examples/sink_lookup.mlir").read_text(encoding="utf-8")
    assert f"```mlir\n{tested[: tested.index(chr(10) + 'func.func')]}\n```" in page

    page = (ROOT / "docs/new-operation.md").read_text(encoding="utf-8")
    source = (ROOT / "examples/plugin/scale_add.py").read_text(encoding="utf-8")
    *quotes, layer, entry = re.findall(r"^```(?:python|cpp)\n(.*?)^```$", page, re.M | re.S)
    assert len(quotes) == 3
    for quote in quotes:
        assert quote in source and re.match(r"@\w+", quote), quote
    added = (ROOT / "test/test_new_function.py").read_text(encoding="utf-8")
    assert layer in added and entry.rstrip() in added


@pytest.mark.parametrize("page", ["architecture", "new-operation", "new-pass"])
def test_files_that_a_page_names_exist(page: str):
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:ceras_ir|docs|examples|test|tools)/[\w./-]*)`", text)
    assert named
    missing = [path for path in named if not (ROOT / path).exists()]
    assert not missing, f"{page} names {missing}"


def test_the_architecture_names_every_folder_and_all_of_a_target():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    tree = page[page.index("## Core and extensions") : page.index("## Targets")]
    for folder in (ROOT / "ceras_ir").iterdir():
        if (folder / "__init__.py").exists():
            assert f"| `{folder.name}/" in tree, folder.name
    section = page[page.index("## Targets") : page.index("## Where to add things")]
    for member in vars(Target):
        assert member[0] == "_" or member in {*TOLD, *re.findall(r"\w+", section)}, member


def test_an_example_is_refreshed_and_shortened():
    page = "before\n```console\n$ seq 5\nold\n...\nold\nold\n$ echo a; echo \\\n> b\n```\nafter\n"
    fresh = "before\n```console\n$ seq 5\n1\n...\n4\n5\n$ echo a; echo \\\n> b\na\nb\n```\nafter\n"
    assert refresh(page) == fresh
    assert refresh(fresh) == fresh
    document = "```console\n$ cat <<END\n> a\n>\n> b\n> END\na\n\nb\n```\n"
    assert refresh(document) == document


def test_examples_share_one_folder_and_see_the_examples():
    page = "```console\n$ echo x > y\n```\n```console\n$ cat y\n$ ls examples/block.mlir\n```\n"
    assert "$ cat y\nx\n$ ls examples/block.mlir\nexamples/block.mlir\n" in refresh(page)


def test_only_the_last_command_may_fail_and_only_as_announced():
    assert "nothing" in refresh("```console exit=3\n$ true\n$ echo nothing; exit 3\n```\n")
    for page in ("```console\n$ exit 3\n```\n", "```console exit=3\n$ exit 3\n$ true\n```\n"):
        with pytest.raises(ExampleFailedError, match="ended with status"):
            refresh(page)
