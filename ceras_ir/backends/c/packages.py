"""
`--package`: make the compiled folder a package of a microcontroller framework.

A package is a few files beside the network's own sources, which they name and never copy.
"""

from collections.abc import Callable
from typing import get_args
from xml.sax.saxutils import quoteattr

from ceras_ir.backends.c.build_files import sources
from ceras_ir.backends.c.choices import Package, Weights
from ceras_ir.backends.c.kernels import filled
from ceras_ir.backends.c.model import Model
from ceras_ir.backends.c.prefix import Prefix
from ceras_ir.network.artefacts import Artefact
from ceras_ir.support.diagnostics import UsageError

VERSION = "1.0.0"
"""Of every package: formats demand one, and a network has none."""

MAX_COMPONENT_LETTERS = 32
"""Of the name of a component of a CMSIS-Pack."""

MODULE = """\
# A Zephyr module: list this folder in ZEPHYR_EXTRA_MODULES, or in a west manifest.
name: ceras_@NAME@
build:
  cmake: zephyr
  kconfig: zephyr/Kconfig
"""

KCONFIG = """\
config CERAS_@UPPER@
  bool "Neural network @NAME@"
  help
    Compile the neural network that @NAME@.h declares.
@LOADED@"""

KCONFIG_LOADED = """\
    Give the content of @NAME@.weights to @NAME@_load_weights before
    the first run.
"""

ZEPHYR = """\
# The project chooses the compiler, the processor and the optimization.
if(CONFIG_CERAS_@UPPER@)
  zephyr_library_named(ceras_@NAME@)
  zephyr_library_sources(@SOURCES@)
  zephyr_library_compile_options(-ffp-contract=off)
@INCLUDED@  zephyr_include_directories(..)
endif()
"""

ZEPHYR_INCLUDED = """\
  zephyr_library_compile_options(-Wa,-I,${CMAKE_CURRENT_SOURCE_DIR}/..)
"""

COMPONENT = """\
# A component of ESP-IDF: list this folder in EXTRA_COMPONENT_DIRS, or put it into components/.
version: "@VERSION@"
description: "@ABOUT@"
dependencies:
  idf: ">=4.1"
"""

PDSC = """\
<?xml version="1.0" encoding="UTF-8"?>
<package schemaVersion="1.7.7" xmlns:xs="http://www.w3.org/2001/XMLSchema-instance"
         xs:noNamespaceSchemaLocation="PACK.xsd">
  <vendor>Ceras</vendor>
  <name>@NAME@</name>
  <description>@ABOUT@</description>
  <url></url>
  <releases>
    <release version="@VERSION@">As compiled.</release>
  </releases>
  <requirements>
    <languages>
      <language name="C" version="99"/>
    </languages>
  </requirements>
  <components>
    <component Cclass="Machine Learning" Cgroup="Ceras" Csub="@NAME@" Cversion="@VERSION@">
      <description>@ABOUT@</description>
      <files>
@FILES@      </files>
    </component>
  </components>
</package>
"""


def check_package(package: Package, prefix: Prefix, weights: Weights) -> None:
    """Refuse what a kind of package cannot express."""
    if package != "cmsis-pack":
        return
    if weights == "incbin":
        raise UsageError(
            "--package cmsis-pack cannot tell the assembler where the weights are: "
            "take --weights source or file"
        )
    if len(prefix.name) > MAX_COMPONENT_LETTERS:
        raise UsageError(
            f"--package cmsis-pack takes names of up to {MAX_COMPONENT_LETTERS} letters, "
            f"and --name has {len(prefix.name)}"
        )


def package_files(package: Package, model: Model) -> list[Artefact]:
    """The files that make the folder such a package."""
    return _FILES[package](model)


def _about(model: Model) -> str:
    return f"The neural network {model.options.prefix.name} in C99, compiled by ceras_ir"


def _own(model: Model, *names: str) -> list[str]:
    return [model.options.prefix.renamed(name) for name in names]


def _zephyr(model: Model) -> list[Artefact]:
    name, weights = model.options.prefix.name, model.options.weights
    holes = {
        "INCLUDED": ZEPHYR_INCLUDED if weights == "incbin" else "",
        "LOADED": KCONFIG_LOADED if weights == "file" else "",
        "SOURCES": " ".join(f"../{source}" for source in _own(model, *sources(model))),
        "NAME": name,
        "UPPER": name.upper(),
    }
    return [
        Artefact.of_text(f"zephyr/{path}", description, filled(text, holes))
        for path, description, text in (
            ("module.yml", "makes the folder a Zephyr module", MODULE),
            ("CMakeLists.txt", "builds the library of the Zephyr module", ZEPHYR),
            ("Kconfig", f"CONFIG_CERAS_{name.upper()} of the Zephyr module", KCONFIG),
        )
    ]


def _esp_idf(model: Model) -> list[Artefact]:
    """The other half of it is in the folder's own `CMakeLists.txt`."""
    text = filled(COMPONENT, {"VERSION": VERSION, "ABOUT": _about(model)})
    return [Artefact.of_text("idf_component.yml", "makes the folder an ESP-IDF component", text)]


def _cmsis_pack(model: Model) -> list[Artefact]:
    listed = [("header", name) for name in ("model.h", "model_kernels.h", "model_weights.h")]
    listed += [("sourceC", name) for name in sources(model)]
    if model.options.weights != "source":
        listed.append(("other", "model.weights"))
    files = "".join(
        f"        <file category={quoteattr(category)} name={quoteattr(_own(model, name)[0])}/>\n"
        for category, name in listed
    )
    name = model.options.prefix.name
    holes = {"FILES": files, "ABOUT": _about(model), "NAME": name, "VERSION": VERSION}
    about = "describes the folder as a CMSIS-Pack"
    return [Artefact.of_text(f"Ceras.{name}.pdsc", about, filled(PDSC, holes))]


_FILES: dict[Package, Callable[[Model], list[Artefact]]] = {
    "zephyr": _zephyr,
    "esp-idf": _esp_idf,
    "cmsis-pack": _cmsis_pack,
}
assert set(_FILES) == set(get_args(Package)), "every choice has its files"
