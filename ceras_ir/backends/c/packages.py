"""
Print the files of `--package`, which make a compiled folder part of a microcontroller framework.

They name the sources of the network in the same folder. The project chooses the compiler, the
processor and the optimization.
"""

import json
from collections.abc import Callable
from typing import get_args
from xml.sax.saxutils import quoteattr

from ceras_ir.backends.c.build_files import sources
from ceras_ir.backends.c.model import PrintedModel
from ceras_ir.backends.c.names import Package, Prefix, WeightStorage
from ceras_ir.backends.c.values import filled
from ceras_ir.network.artefacts import Artefact
from ceras_ir.support.diagnostics import UsageError

PACKAGE_VERSION = "1.0.0"
"""The version of each package: formats require a version, and networks have none."""

MAX_COMPONENT_CHARACTERS = 32
"""The maximum length of the name of a component of a CMSIS-Pack."""

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
# A component of ESP-IDF: list this folder in EXTRA_COMPONENT_DIRS, or copy it to components/.
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


def check_package(package: Package, prefix: Prefix, weights: WeightStorage) -> None:
    """
    Raise `UsageError` if the framework `package` cannot express this storage of weights or the
    length of the name `prefix`.
    """
    if package in ("cmsis-pack", "platformio") and weights == "incbin":
        raise UsageError(
            f"--package {package} cannot pass the folder of the weights to the assembler: "
            "use --weights source or file"
        )
    if package == "cmsis-pack" and len(prefix.name) > MAX_COMPONENT_CHARACTERS:
        raise UsageError(
            f"--package cmsis-pack requires names of up to {MAX_COMPONENT_CHARACTERS} letters, "
            f"and --name has {len(prefix.name)}"
        )


def package_files(package: Package, model: PrintedModel) -> list[Artefact]:
    return _FILES[package](model)


def _description(model: PrintedModel) -> str:
    return f"The neural network {model.options.prefix.name} in C99, compiled by ceras_ir"


def _prefixed(model: PrintedModel, *names: str) -> list[str]:
    return [model.options.prefix.renamed(name) for name in names]


def _zephyr(model: PrintedModel) -> list[Artefact]:
    name, weights = model.options.prefix.name, model.options.weights
    holes = {
        "INCLUDED": ZEPHYR_INCLUDED if weights == "incbin" else "",
        "LOADED": KCONFIG_LOADED if weights == "file" else "",
        "SOURCES": " ".join(f"../{source}" for source in _prefixed(model, *sources(model))),
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


def _esp_idf(model: PrintedModel) -> list[Artefact]:
    text = filled(COMPONENT, {"VERSION": PACKAGE_VERSION, "ABOUT": _description(model)})
    return [Artefact.of_text("idf_component.yml", "makes the folder an ESP-IDF component", text)]


def _cmsis_pack(model: PrintedModel) -> list[Artefact]:
    listed = [("header", name) for name in ("model.h", "model_kernels.h", "model_weights.h")]
    listed += [("sourceC", name) for name in sources(model)]
    if model.options.weights != "source":
        listed.append(("other", "model.weights"))
    files = "".join(
        f"        <file category={quoteattr(category)} name={quoteattr(prefixed)}/>\n"
        for category, name in listed
        for prefixed in _prefixed(model, name)
    )
    name = model.options.prefix.name
    holes = {"FILES": files, "ABOUT": _description(model), "NAME": name, "VERSION": PACKAGE_VERSION}
    about = "describes the folder as a CMSIS-Pack"
    return [Artefact.of_text(f"Ceras.{name}.pdsc", about, filled(PDSC, holes))]


def _platformio(model: PrintedModel) -> list[Artefact]:
    content = {
        "name": model.options.prefix.name,
        "version": PACKAGE_VERSION,
        "description": _description(model),
        "headers": _prefixed(model, "model.h"),
        "build": {
            "srcFilter": [f"+<{source}>" for source in _prefixed(model, *sources(model))],
            "flags": ["-ffp-contract=off"],
        },
    }
    about = "makes the folder a library of PlatformIO"
    return [Artefact.of_text("library.json", about, json.dumps(content, indent=2) + "\n")]


_FILES: dict[Package, Callable[[PrintedModel], list[Artefact]]] = {
    "zephyr": _zephyr,
    "esp-idf": _esp_idf,
    "cmsis-pack": _cmsis_pack,
    "platformio": _platformio,
}
assert set(_FILES) == set(get_args(Package)), "each choice has files"
