"""Check in a real shell that scripts complete the options of the parsers."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("shtab", reason="the extra `editor` is not installed")

from ceras_ir.command.entry_point import commands
from ceras_ir.driver import commands as core
from ceras_ir.workbench import commands as workbench
from ceras_ir.workbench.completion import all_parsers, main, parser_of


def test_every_command_has_a_parser():
    parsers = all_parsers()
    assert set(parsers) == {"ceras", *(point.name for point in commands().values())}
    assert all("--help" in parser.flags for parser in parsers.values())


def test_options_of_all_targets_and_passes_are_there():
    compile = parser_of(core.compile)
    assert {"--encoding", "--convolution", "--report", "--board"} <= compile.flags
    assert {"--observer", "--help-all"} <= compile.flags
    assert {"--fuse", "--place", "--tile"} <= parser_of(core.opt).flags
    assert "--encoding" not in parser_of(workbench.plan).flags


def completed(script: Path, function: str, *words: str) -> list[str]:
    """Return the completions of bash for the last of `words`."""
    line = " ".join(f"'{word}'" for word in words)
    program = (
        f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; {function}; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out)
    compile = "_shtab_ceras_compile"
    assert completed(script, compile, "ceras-compile", "--repo") == ["--report"]
    targets = completed(script, compile, "ceras-compile", "--target", "")
    assert {"c", "vta", "nnet", "arduino"} <= set(targets)
    offered = completed(script, "_shtab_ceras_opt", "ceras-opt", "--fuse-b")
    assert offered == ["--fuse-branches"]
    assert completed(script, "_shtab_ceras", "ceras", "verif") == ["verify"]
    assert completed(script, "_shtab_ceras", "ceras", "compile", "--repo") == ["--report"]
    assert completed(script, "_shtab_ceras", "ceras", "help", "compl") == ["completion"]
    (tmp_path / "model.onnx").touch()
    assert completed(script, compile, "ceras-compile", f"{tmp_path}/mo") == [
        f"{tmp_path}/model.onnx"
    ]


def test_other_shells_have_scripts(capsys: pytest.CaptureFixture[str]):
    for shell in ("zsh", "tcsh"):
        assert main([shell]) == 0
        assert "ceras-compile" in capsys.readouterr().out
    assert main(["fish"]) == 2
