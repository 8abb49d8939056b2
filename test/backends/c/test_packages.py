"""
Test `--package`: frameworks accept the folder unchanged.

Stubs replace the CMake functions of Zephyr and ESP-IDF, with the scopes of the originals. The
linked program computes the bytes of the interpreter. PlatformIO itself runs where it is installed.
"""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import numpy as np
import pytest
from backends.c.test_machine import needs_cmake, shell
from backends.c.test_prefix import COLOUR, NAMES, integers, two_models
from c_harness import random_inputs
from conftest import Tool
from firmware import write_files

from ceras_ir.backends.c.emitter import build, files_of
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.names import Package, Prefix, WeightStorage
from ceras_ir.backends.c.target import CTarget
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import UsageError

KINDS: tuple[Package, ...] = get_args(Package)
WEIGHTS: tuple[WeightStorage, ...] = get_args(WeightStorage)

PLATFORMS = Path(os.environ.get("PLATFORMIO_CORE_DIR", "~/.platformio")).expanduser() / "platforms"
needs_pio = pytest.mark.skipif(not shutil.which("pio"), reason="needs pio")
needs_native_pio = pytest.mark.skipif(
    not (shutil.which("pio") and (PLATFORMS / "native").is_dir()),
    reason="needs pio with the platform native",
)

PROJECT = """\
cmake_minimum_required(VERSION 3.13)
project(user C)
@FUNCTIONS@
add_executable(mine @FOLDER@/main.c)
target_include_directories(mine PRIVATE ${INCLUDED})
target_link_libraries(mine @LIBRARY@)
"""

ZEPHYR = """\
define_property(GLOBAL PROPERTY INCLUDED BRIEF_DOCS " " FULL_DOCS " ")
macro(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${name})
  add_library(${name} STATIC "")
endmacro()
function(zephyr_library_sources source)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${source} ${ARGN})
endfunction()
function(zephyr_library_compile_options item)
  target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${item} ${ARGN})
endfunction()
function(zephyr_include_directories)
  foreach(folder ${ARGV})
    get_filename_component(folder ${folder} ABSOLUTE)
    set_property(GLOBAL APPEND PROPERTY INCLUDED ${folder})
  endforeach()
endfunction()
option(@SWITCH@ "as prj.conf sets it" OFF)
add_subdirectory(@FOLDER@/@MODULE@ @FOLDER@)
get_property(INCLUDED GLOBAL PROPERTY INCLUDED)
"""

ESP_IDF = """\
function(idf_component_register)
  cmake_parse_arguments(_ "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
  get_filename_component(name ${CMAKE_CURRENT_LIST_DIR} NAME)
  add_library(__idf_${name} STATIC ${__SRCS})
  foreach(folder ${__INCLUDE_DIRS})
    get_filename_component(folder ${folder} ABSOLUTE)
    target_include_directories(__idf_${name} PUBLIC ${folder})
  endforeach()
  set(COMPONENT_LIB __idf_${name} PARENT_SCOPE)
endfunction()
set(ESP_PLATFORM 1)
add_subdirectory(@FOLDER@)
"""

EARLY = """\
# Requirements are read in a script, where there are no targets and registering returns.
macro(idf_component_register)
  message("registered: ${ARGV}")
  return()
endmacro()
include(${CMAKE_CURRENT_LIST_DIR}/@FOLDER@/CMakeLists.txt)
"""


USER = """\
#include <stdio.h>
#include <kws.h>
static int8_t x[KWS_INPUT0_SIZE], y[KWS_OUTPUT0_SIZE];
int main()
{
  if (fread(x, 1, sizeof x, stdin) != sizeof x || kws_run(x, y) != KWS_OK) return 1;
  return fwrite(y, 1, sizeof y, stdout) != sizeof y;
}
"""


def check_program(program: Path) -> None:
    """Compare a program in C++ with the interpreter."""
    sample = random_inputs(integers(3, 8))
    given = sample["input0"].tobytes()
    done = subprocess.run([program], input=given, capture_output=True, check=True)
    assert done.stdout == run(integers(3, 8), sample)["output0"].tobytes()


def packed(
    folder: Path, kind: Package, weights: WeightStorage = "source", name: str = "kws"
) -> Path:
    options = COptions(prefix=Prefix(name), weights=weights)
    write_files(files_of(build(integers(3, 8), options), kind), folder / "net")
    return folder / "net"


def filled(text: str, **holes: str) -> str:
    return re.sub("@([A-Z]+)@", lambda found: holes[found[1]], text)


def zephyr_project(net: Path) -> str:
    module = (net / "zephyr/module.yml").read_text()
    cmake, kconfig = (re.findall(rf"^  {key}: (.+)$", module, re.M) for key in ("cmake", "kconfig"))
    (symbol,) = re.findall(r"^config (\w+)$", (net / kconfig[0]).read_text(), re.M)
    functions = filled(ZEPHYR, SWITCH=f"CONFIG_{symbol}", FOLDER="net", MODULE=cmake[0])
    (name,) = re.findall(r"^name: (\w+)$", module, re.M)
    return filled(PROJECT, FUNCTIONS=functions, FOLDER="net", LIBRARY=name)


def esp_project(net: Path) -> str:
    early = net.parent / "early.cmake"
    early.write_text(filled(EARLY, FOLDER="net"))
    shell("cmake", "-DESP_PLATFORM=1", "-P", early)
    assert (net / "idf_component.yml").is_file()
    functions = filled(ESP_IDF, FOLDER="net")
    return filled(PROJECT, FUNCTIONS=functions, FOLDER="net", LIBRARY="__idf_net")


@pytest.mark.slow
@needs_cmake
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kind", ["zephyr", "esp-idf"])
def test_the_framework_compiles_the_folder(tmp_path: Path, kind: Package, weights: WeightStorage):
    net = packed(tmp_path, kind, weights)
    is_zephyr = kind == "zephyr"
    project = zephyr_project(net) if is_zephyr else esp_project(net)
    (tmp_path / "CMakeLists.txt").write_text(project)
    switch = ["-DCONFIG_CERAS_KWS=ON"] if is_zephyr else []
    shell("cmake", "-S", tmp_path, "-B", tmp_path / "b", *switch, "-DCMAKE_BUILD_TYPE=Release")
    shell("cmake", "--build", tmp_path / "b")
    sample = random_inputs(integers(3, 8))
    (tmp_path / "in.bin").write_bytes(sample["input0"].tobytes())
    given = [net / "kws.weights"] if weights == "file" else []
    shell(tmp_path / "b/mine", tmp_path / "in.bin", tmp_path / "out.bin", *given)
    expected = run(integers(3, 8), sample)["output0"]
    assert (tmp_path / "out.bin").read_bytes() == expected.tobytes()
    assert np.unique(expected).size > 8


@pytest.mark.slow
@needs_cmake
def test_zephyr_compiles_nothing_unless_asked(tmp_path: Path):
    net = packed(tmp_path, "zephyr")
    lines = zephyr_project(net).splitlines()
    kept = "\n".join(line for line in lines if "mine" not in line)
    (tmp_path / "CMakeLists.txt").write_text(f"{kept}\nif(TARGET ceras_kws)\nerror()\nendif()\n")
    shell("cmake", "-S", tmp_path, "-B", tmp_path / "b")


@pytest.mark.slow
@needs_cmake
def test_a_zephyr_project_takes_two_networks(tmp_path: Path):
    pair = two_models(tmp_path)
    for number, name in enumerate(NAMES):
        model = build(integers(number, 8 + 8 * number), COptions(prefix=Prefix(name)))
        write_files(files_of(model, "zephyr"), tmp_path / name)
    # The functions, then both modules.
    functions, end, rest = ZEPHYR.partition("option(")
    modules = "".join(
        filled(end + rest, SWITCH=f"CONFIG_CERAS_{n.upper()}", FOLDER=n, MODULE="zephyr")
        for n in NAMES
    )
    project = filled(PROJECT, FUNCTIONS=functions + modules, FOLDER=".", LIBRARY="")
    project = project.replace("./main.c", "user.c") + "".join(
        f"target_link_libraries(mine ceras_{name})\n" for name in NAMES
    )
    (tmp_path / "CMakeLists.txt").write_text(project)
    switches = [f"-DCONFIG_CERAS_{name.upper()}=ON" for name in NAMES]
    shell("cmake", "-S", tmp_path, "-B", tmp_path / "b", *switches)
    shell("cmake", "--build", tmp_path / "b")
    done = subprocess.run([tmp_path / "b/mine"], capture_output=True, text=True, check=True)
    pair.verdict(done.stdout)


@pytest.mark.parametrize("weights", ["source", "file"])
def test_a_pack_lists_what_is_there(tmp_path: Path, weights: WeightStorage):
    """A missing header or constant of the library is detected."""
    net = packed(tmp_path, "cmsis-pack", weights)
    package = ElementTree.parse(net / "Ceras.kws.pdsc").getroot()
    assert package.findtext("vendor") == "Ceras" and package.findtext("name") == "kws"
    (component,) = package.iterfind("components/component")
    release = package.find("releases/release")
    assert release is not None and release.get("version") == component.get("Cversion")
    assert component.get("Csub") == "kws"
    listed = {file.attrib["name"]: file.attrib["category"] for file in component.iter("file")}
    assert all((net / name).is_file() for name in listed)
    own = {path.name for path in net.glob("kws*")}
    assert set(listed) == own
    kinds = {".h": "header", ".c": "sourceC", ".weights": "other"}
    assert listed == {name: kinds[Path(name).suffix] for name in own}
    assert ("kws.weights" in listed) == (weights == "file")


@pytest.mark.slow
@needs_cmake
@pytest.mark.parametrize("build_type", ["", "MinSizeRel"])
@pytest.mark.parametrize("kind", ["zephyr", "esp-idf"])
def test_the_project_decides(tmp_path: Path, kind: Package, build_type: str):
    """A program in C++ is linked. No level is added, and its files get no flag of the network."""
    net = packed(tmp_path, kind)
    project = zephyr_project(net) if kind == "zephyr" else esp_project(net)
    project = project.replace("project(user C)", "project(user C CXX)")
    (tmp_path / "CMakeLists.txt").write_text(project.replace("net/main.c", "user.cpp"))
    (tmp_path / "user.cpp").write_text(USER)
    switches = ["-DCONFIG_CERAS_KWS=ON", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    build = tmp_path / "b"
    shell("cmake", "-S", tmp_path, "-B", build, f"-DCMAKE_BUILD_TYPE={build_type}", *switches)
    shell("cmake", "--build", build)
    check_program(build / "mine")
    levels = ["-Os"] if build_type else []
    for command in json.loads((build / "compile_commands.json").read_text()):
        flags: list[str] = command["command"].split()
        assert [flag for flag in flags if flag.startswith("-O")] == levels
        is_network = Path(command["file"]).parent == net
        assert ("-ffp-contract=off" in flags) == is_network
        assert not any(flag.startswith("-march") for flag in flags)


@pytest.mark.slow
def test_the_sources_of_a_pack_link_with_cpp(tmp_path: Path):
    """A CMSIS-Pack has no flags: the project compiles the listed sources with its flags."""
    net = packed(tmp_path, "cmsis-pack")
    package = ElementTree.parse(net / "Ceras.kws.pdsc").getroot()
    files = {file.attrib["name"]: file.attrib["category"] for file in package.iter("file")}
    (tmp_path / "user.cpp").write_text(USER)
    objects: list[Path] = []
    for name in (n for n, category in files.items() if category == "sourceC"):
        objects.append(tmp_path / f"{name}.o")
        shell("cc", "-std=c99", "-Oz", f"-I{net}", "-c", net / name, "-o", objects[-1])
    shell("c++", f"-I{net}", tmp_path / "user.cpp", *objects, "-o", tmp_path / "user")
    check_program(tmp_path / "user")


LIBRARY_FIELDS = {"name", "version", "description", "headers", "build"}
"""The fields of library.json that PlatformIO documents, as far as the package uses them."""


@pytest.mark.slow
def test_a_platformio_library_builds(tmp_path: Path):
    """
    The documented fields are sufficient, the level is that of the project, and a user has C++.
    """
    net = packed(tmp_path, "platformio")
    library = json.loads((net / "library.json").read_text())
    assert set(library) == LIBRARY_FIELDS and set(library["build"]) == {"srcFilter", "flags"}
    assert re.fullmatch(r"[A-Za-z0-9_]{1,50}", library["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", library["version"])
    assert library["headers"] == ["kws.h"] and len(library["description"]) <= 255
    (tmp_path / "main.cpp").write_text(USER)
    objects: list[Path] = []
    for name in ("main.cpp", *library["build"]["srcFilter"]):
        if is_source := name.startswith("+<"):
            name = name.removeprefix("+<").removesuffix(">")
        source = net / name if is_source else tmp_path / name
        objects.append(tmp_path / f"{name}.o")
        flags: list[str] = library["build"]["flags"] if is_source else []
        compiler = "cc" if is_source else "c++"
        shell(compiler, "-Os", *flags, f"-I{net}", "-c", source, "-o", objects[-1])
    shell("c++", *objects, "-o", tmp_path / "user")
    check_program(tmp_path / "user")


@needs_pio
@pytest.mark.slow
def test_platformio_accepts_the_library(tmp_path: Path):
    shell("pio", "pkg", "pack", packed(tmp_path, "platformio"), "-o", tmp_path / "kws.tar.gz")


@needs_native_pio
@pytest.mark.slow
def test_platformio_builds_a_program(tmp_path: Path):
    net = packed(tmp_path, "platformio")
    for folder in ("src", "lib"):
        (tmp_path / folder).mkdir()
    net.rename(tmp_path / "lib/kws")
    (tmp_path / "src/main.cpp").write_text(USER)
    (tmp_path / "platformio.ini").write_text("[env:host]\nplatform = native\nbuild_flags = -Os\n")
    shell("pio", "run", "-d", tmp_path)
    check_program(tmp_path / ".pio/build/host/program")


@pytest.mark.parametrize("kind", KINDS)
def test_packages_copy_no_source(tmp_path: Path, kind: Package):
    """Each file of a package names the network, and no file repeats a file of the folder."""
    options = COptions(prefix=Prefix("kws"))
    model = build(integers(3, 8), options)
    plain = {a.path for a in files_of(model)}
    added = [a for a in files_of(model, kind) if a.path not in plain]
    assert {a.path for a in added} == {
        "zephyr": {"zephyr/module.yml", "zephyr/CMakeLists.txt", "zephyr/Kconfig"},
        "esp-idf": {"idf_component.yml"},
        "cmsis-pack": {"Ceras.kws.pdsc"},
        "platformio": {"library.json"},
    }[kind]
    write_files(added, tmp_path)
    for artefact in added:
        text = (tmp_path / artefact.path).read_text()
        assert re.search("kws", text, re.I) and "@" not in text
        assert not re.search("model(?! )", text.replace("module", ""))


def test_what_a_pack_cannot_say_is_refused():
    pack = CTarget(package="cmsis-pack")
    replace(pack, prefix="x" * 32).check()
    with pytest.raises(UsageError, match="names of up to 32 letters"):
        replace(pack, prefix="x" * 33).check()
    for kind in ("cmsis-pack", "platformio"):
        with pytest.raises(UsageError, match=f"{kind} .* use --weights source or file"):
            CTarget(package=kind, weights="incbin").check()
    CTarget(package="zephyr", prefix="x" * 40, weights="incbin").check()


@pytest.mark.slow
def test_unknown_packages_are_refused(tool: Tool, tmp_path: Path):
    done = tool("ceras-compile", COLOUR, "--target", "c", "--package", "zephir", "-o", "net")
    assert done.status == 2, done.stderr
    assert "did you mean 'zephyr'?" in done.stderr and "cmsis-pack" in done.stderr
    assert not (tmp_path / "net").exists()


@pytest.mark.slow
def test_the_manifest_lists_the_package(tool: Tool, tmp_path: Path):
    """The folder runs like any other folder."""
    options = ["--target", "c", "--package", "zephyr", "--name", "kws", "-o", "net"]
    done = tool("ceras-compile", COLOUR, *options)
    assert done.status == 0, done.stderr
    manifest = json.loads((tmp_path / "net/manifest.json").read_text())
    text = json.dumps(manifest)
    for name in ("module.yml", "CMakeLists.txt", "Kconfig"):
        assert f"zephyr/{name}" in text and (tmp_path / "net/zephyr" / name).is_file()
    np.savez(tmp_path / "in.npz", input=np.zeros((1, 3), np.float32))
    done = tool("ceras-run", "net", "--inputs", "in.npz", "--outputs", "out.npz")
    assert done.status == 0, done.stderr
