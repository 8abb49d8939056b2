"""
Run scripts for Vivado and Quartus in Tcl, with commands that stand for the tool.

The commands record their arguments and return given slacks.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

TCLSH = shutil.which("tclsh")
needs_tcl = pytest.mark.skipif(TCLSH is None, reason="tclsh is missing")

PRELUDE = """
set log [open commands.txt w]
fconfigure $log -buffering line
proc unknown {args} { puts $::log $args; return "" }
proc exec {args} { puts $::log [list exec {*}$args]; return "" }
proc get_timing_paths {args} { puts $::log [list get_timing_paths {*}$args]; return PATHS }
proc slack {} { return [lindex {SLACKS} [expr {$::asked - 1}]] }
proc get_property {name path} { incr ::asked; return [slack] }
proc get_path_info {path name} { incr ::asked; return [slack] }
proc foreach_in_collection {name found body} { uplevel 1 [list foreach $name $found $body] }
proc qexit {status} { exit [expr {$status eq "-error"}] }
set asked 0
"""


def run_script(
    name: str, folder: Path, arguments: str, slacks: str, paths: str = "a"
) -> tuple[int, str]:
    """
    Run the script `name` of `folder`. `slacks` are the slacks in ns of the paths for setup and
    hold, and `paths` the names of the paths that the tool finds for each. Return the exit status
    and the commands of the tool that the script called.
    """
    prelude = PRELUDE.replace("PATHS", f"[list {paths}]").replace("SLACKS", slacks)
    start = f"set argv [list {arguments}]\nset quartus(args) $argv\n"
    (folder / "run.tcl").write_text(f"{prelude}{start}source {name}\n")
    assert TCLSH is not None
    done = subprocess.run(
        [TCLSH, "run.tcl"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert not done.stderr, done.stderr
    return done.returncode, (folder / "commands.txt").read_text()
