"""Check the registers in the header and on the page, and the folder for a bitstream."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from vendor_scripts import needs_tcl, run_script

from ceras_ir.backends.nnet.circuits import (
    DEFAULT,
    LIMITS_MODULE,
    SHARED_NUMBERS,
    circuit_sources,
    limits_module,
    number,
    package_source,
    register_map,
    register_table,
    registers_header,
)
from ceras_ir.backends.nnet.tool import main
from ceras_ir.support.native import has_verilator


def test_every_register_has_an_address_of_its_own():
    known = register_map()
    bits: set[int] = set()
    for field in known.fields:
        at = 8 * known.address(field) + field.shift
        taken = set(range(at, at + field.bits))
        assert not bits & taken, field.name
        bits |= taken
    end = 4 * (known.constant("LAYER") + known.constant("WORDS"))
    assert bits == set(range(8 * 4 * known.constant("LAYER"), 8 * end))
    words = [c.value for c in known.words]
    assert len(set(words)) == len(words) and all(4 * w < 0x10 or 4 * w >= end for w in words)


def test_header_and_page_have_the_same_numbers():
    known, header, table = register_map(), registers_header(), register_table()
    for field in known.fields:
        place = f'{{"{field.name}", {field.word}, {field.shift}, {field.bits}, '
        assert f"constexpr Field {field.name.upper()}{place}" in header
        assert f"| {known.address(field):#05x} | `{field.name}` |" in table


def test_the_module_of_limits_is_generated():
    assert (package_source().parent / f"{LIMITS_MODULE}.sv").read_text("ascii") == limits_module()


def test_a_number_of_the_core_has_one_value():
    """A number of the core has the same value in all modules and in the header of the engine."""
    core = DEFAULT.parameters() | {"PIXELS": 256, "BURST_BYTES": 256}
    for path in circuit_sources():
        found = re.findall(r"(?:parameter|localparam) (\w+) = (\d+)\b", path.read_text("ascii"))
        for name, value in found:
            assert name not in core or int(value) == core[name], (path.name, name)
    for name, (source, _) in SHARED_NUMBERS.items():
        assert f"constexpr int CORE_{name} = {number(source, name)};" in registers_header()


@pytest.mark.slow
def test_the_circuits_of_a_bitstream(tmp_path: Path):
    """Verilator accepts the sources with the wrapper, which has the requested size."""
    assert main(["circuits", str(tmp_path), "--lanes", "8", "--bus", "8"]) == 0
    script = (tmp_path / "block_design.tcl").read_text()
    assert "PSU__SAXIGP2__DATA_WIDTH 64" in script and "@" not in script
    wrapper = (tmp_path / "nnet_axi.v").read_text()
    assert "localparam LANES = 8;" in wrapper and "localparam BUS_BYTES = 8;" in wrapper
    if has_verilator():
        package = tmp_path / "layer_registers.sv"
        others = sorted(p for p in tmp_path.glob("*v") if p != package)
        command = [
            "verilator",
            "--lint-only",
            "-Wno-lint",
            "-Wno-style",
            "--top-module",
            "nnet_axi",
        ]
        command += [str(package), *map(str, others)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    if shutil.which("dtc"):
        tree = ["dtc", "-@", "-I", "dts", "-O", "dtb", "-o", "/dev/null", "nnet.dtso"]
        subprocess.run(tree, cwd=tmp_path, check=True)


@needs_tcl
@pytest.mark.parametrize(
    ("slacks", "status"), [("0.1 0.02", 0), ("-0.1 0.02", 1), ("0.1 -0.02", 1)]
)
def test_the_block_design_fails_if_timing_fails(slacks: str, status: int, tmp_path: Path):
    """The archive with the bitstream is written only if no path is too slow."""
    assert main(["circuits", str(tmp_path)]) == 0
    found, commands = run_script("block_design.tcl", tmp_path, "", slacks)
    assert found == status
    assert ("write_hw_platform" in commands) == (not status)
