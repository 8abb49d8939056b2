"""
Print `Makefile`, `CMakeLists.txt` and `toolchain.cmake`, which compile the model and its programs.

Settings of the user have priority over the defaults in these files.
"""

import re

from ceras_ir.backends.c.machines import Machine
from ceras_ir.backends.c.model import PrintedModel
from ceras_ir.backends.c.names import Package, comment
from ceras_ir.backends.c.values import filled

MAKEFILE = """\
@GOALS@@COMPILER@ARCH = @ARCH@
CFLAGS ?= @LEVEL@ $(ARCH)
OPENMP = $(if $(filter 1,$(THREADS)),-fopenmp)
MODEL_FLAGS = -std=c99 -Wall -Wextra -Werror $(OPENMP)
OBJECTS = @OBJECTS@

@TARGET@
%.o: %.c model.h model_weights.h model_kernels.h
\t$(CC) $(MODEL_FLAGS) $(CFLAGS) -ffp-contract=off -c $< -o $@
@ASSEMBLED@
clean:
\trm -f $(OBJECTS) @PROGRAMS@

.PHONY: clean @PHONY@
"""

GOALS = """\
# make builds model_run: ./model_run in.bin out.bin@LENGTH@@USAGE@
# (raw tensors without separators, in the order of manifest.json),
# and model_bench: ./model_bench RUNS@USAGE@ prints the time of a run as a line of JSON.
# make THREADS=1 shares the layers among OMP_NUM_THREADS threads.
"""

BARE_GOALS = """\
# make compiles @OBJECTS@ for your program.
# make model_run and make model_bench link programs for the console of a debugger. They need a
# linker script and the start-up code of the board, in LDFLAGS.
"""

NATIVE_SETTING = """\
CC ?= cc
NATIVE ?= 1
"""

CROSS = """\
# For @TITLE@; give CC and ARCH to compile for another machine.
ifeq ($(origin CC),default)
CC = @CC@
endif
@LINK@"""

CMAKE_NATIVE = """\
if(CMAKE_CROSSCOMPILING)
  set(MODEL_HAS_NATIVE OFF)
else()
  include(CheckCCompilerFlag)
  check_c_compiler_flag(-march=native MODEL_HAS_NATIVE)
endif()
option(MODEL_NATIVE "compile for this very processor" ${MODEL_HAS_NATIVE})
"""
CMAKE_CROSS = """\
# For @TITLE@. A toolchain file, such as toolchain.cmake, names the processor itself.
if(CMAKE_TOOLCHAIN_FILE)
  set(MODEL_ARCH "" CACHE STRING "flags that name the processor")
else()
  set(MODEL_ARCH "@FLAGS@" CACHE STRING "flags that name the processor")
endif()
"""
ARCH_OPTIONS = """\
  string(REPLACE ";" " " CMAKE_C_FLAGS "${MODEL_ARCH} ${CMAKE_C_FLAGS}")
"""
NATIVE_OPTIONS = """\
  if(MODEL_NATIVE)
    set(CMAKE_C_FLAGS "-march=native ${CMAKE_C_FLAGS}")
  endif()
"""

ALL = "all: model_run model_bench\n"
OBJECTS_ONLY = "objects: $(OBJECTS)\n"

PROGRAMS = """
model_run: $(OBJECTS) main.o
\t$(CC) $(CFLAGS) $(OPENMP) $(OBJECTS) main.o $(LDFLAGS) -o $@

model_bench: $(OBJECTS) bench.o
\t$(CC) $(CFLAGS) $(OPENMP) $(OBJECTS) bench.o $(LDFLAGS) -o $@
"""

CMAKE = """\
# add_subdirectory(this folder), or install and find_package(@NAME@); link with @NAME@::@NAME@.
# Programs: model_run and model_bench.
cmake_minimum_required(VERSION 3.10)
@COMPONENT@project(@NAME@ C)
include(GNUInstallDirs)

@NATIVE@option(MODEL_THREADS "share layers among threads, with OpenMP" OFF)

# The flags of the project follow these defaults and replace them. A build type has a level.
get_property(MODEL_HAS_CONFIGS GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  if(NOT CMAKE_BUILD_TYPE AND NOT MODEL_HAS_CONFIGS)
    set(CMAKE_C_FLAGS "@LEVEL@ ${CMAKE_C_FLAGS}")
  endif()
@ARCH@endif()

add_library(@NAME@ @SOURCES@)
add_library(@NAME@::@NAME@ ALIAS @NAME@)
target_include_directories(@NAME@ PUBLIC
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(@NAME@ PROPERTIES
  C_STANDARD 99 C_VISIBILITY_PRESET default WINDOWS_EXPORT_ALL_SYMBOLS ON)
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  # Warnings of the project apply, except for conversions and comparisons that are intended.
  target_compile_options(@NAME@ PRIVATE
    -ffp-contract=off -Wno-conversion -Wno-sign-conversion -Wno-float-equal)
endif()
if(MODEL_THREADS)
  find_package(OpenMP REQUIRED)
  target_link_libraries(@NAME@ PUBLIC OpenMP::OpenMP_C)
endif()
@INCLUDED@
install(TARGETS @NAME@ EXPORT @NAME@Targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES model.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT @NAME@Targets NAMESPACE @NAME@::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/@NAME@)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/@NAME@Config.cmake "\
if(${MODEL_THREADS})
  include(CMakeFindDependencyMacro)
  enable_language(C)
  find_dependency(OpenMP COMPONENTS C)
endif()
include(\\${CMAKE_CURRENT_LIST_DIR}/@NAME@Targets.cmake)
")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/@NAME@Config.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/@NAME@)

# Without an operating system, programs need a linker script of the user.
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Generic")
  add_executable(model_run main.c)
  target_link_libraries(model_run @NAME@)
  add_executable(model_bench bench.c)
  target_link_libraries(model_bench @NAME@)
endif()
"""

CMAKE_COMPONENT = """\
# As a component of ESP-IDF, whose project chooses the compiler, processor and optimization.
if(ESP_PLATFORM)
  idf_component_register(SRCS @SOURCES@ INCLUDE_DIRS .)
  target_compile_options(${COMPONENT_LIB} PRIVATE -ffp-contract=off@SEARCHED@)
  return()
endif()
"""

SEARCHED = " -Wa,-I,${CMAKE_CURRENT_SOURCE_DIR}"
"""The option that locates the weights for the assembler."""

TOOLCHAIN = """\
# cmake --toolchain toolchain.cmake: for @TITLE@.
# The flags of the processor are part of the compiler, so CMAKE_C_FLAGS cannot remove them.
set(CMAKE_SYSTEM_NAME @SYSTEM@)
set(CMAKE_SYSTEM_PROCESSOR @PROCESSOR@)
set(CMAKE_C_COMPILER @CC@)
set(CMAKE_CXX_COMPILER @CXX@)
set(CMAKE_EXE_LINKER_FLAGS_INIT "@LINK@")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
"""


def sources(model: PrintedModel) -> list[str]:
    if model.options.weights == "file":
        return ["model.c"]
    return ["model.c", "model_weights.c"]


def cmake_lists(model: PrintedModel, package: Package | None = None) -> str:
    """
    Return the text of `CMakeLists.txt`. With package `esp-idf`, it is also a component of ESP-IDF.
    """
    searched = SEARCHED if model.options.weights == "incbin" else ""
    included = f"target_compile_options(@NAME@ PRIVATE{searched})\n" if searched else ""
    machine = model.options.machine
    holes = {
        "COMPONENT": CMAKE_COMPONENT if package == "esp-idf" else "",
        "SEARCHED": searched,
        "NATIVE": CMAKE_NATIVE if machine.is_native else CMAKE_CROSS,
        "ARCH": NATIVE_OPTIONS if machine.is_native else ARCH_OPTIONS,
        "SOURCES": " ".join(sources(model)),
        "INCLUDED": included,
        "TITLE": comment(machine.title),
        "CC": machine.compiler,
        "FLAGS": " ".join(machine.flags),
        "LEVEL": model.options.level,
        "NAME": model.options.prefix.name,
    }
    return filled(CMAKE, holes)


def toolchain(machine: Machine) -> str:
    """
    Return the text of `toolchain.cmake`, with which CMake compiles for `machine`. It is not needed
    for this machine.
    """
    family = machine.compiler.partition("-")[0]
    is_bare = machine.is_bare or re.search("-(none|unknown)-", machine.compiler) is not None
    holes = {
        "TITLE": comment(machine.title),
        "SYSTEM": "Generic" if is_bare else "Linux",
        "PROCESSOR": "riscv32" if any("rv32" in f for f in machine.flags) else family,
        "CC": " ".join((machine.compiler, *machine.flags)),
        "CXX": " ".join((_cxx_compiler(machine.compiler), *machine.flags)),
        "LINK": " ".join(machine.link_flags),
    }
    return filled(TOOLCHAIN, holes)


def _cxx_compiler(c_compiler: str) -> str:
    """Return the C++ compiler of the same tools: `arm-none-eabi-g++` for `arm-none-eabi-gcc`."""
    for ending, replacement in (("gcc", "g++"), ("clang", "clang++"), ("cc", "c++")):
        if c_compiler.endswith(ending):
            return c_compiler.removesuffix(ending) + replacement
    return c_compiler


def makefile(model: PrintedModel) -> str:
    """
    Return the text of `Makefile`. Its default goal is the programs `model_run` and `model_bench`,
    or only the object files if there is no operating system or if the network launches an
    accelerator.
    """
    is_host = bool(model.program.launches)
    is_included = model.options.weights == "incbin"
    machine = model.options.machine
    default = OBJECTS_ONLY if is_host or machine.is_bare else ALL
    objects = " ".join(f"{name.rpartition('.')[0]}.o" for name in sources(model))
    usage = " [model.weights]" if model.options.weights == "file" else ""
    length = " LENGTH" if model.lengths else ""
    goals = filled(BARE_GOALS, {"OBJECTS": objects.replace(" ", " and ")})
    arch = "$(if $(filter 1,$(NATIVE)),-march=native)"
    holes = {
        "COMPILER": NATIVE_SETTING if machine.is_native else CROSS,
        "LEVEL": model.options.level,
        "ARCH": arch if machine.is_native else " ".join(machine.flags),
        "TITLE": comment(machine.title),
        "CC": machine.compiler,
        "LINK": f"LDFLAGS ?= {' '.join(machine.link_flags)}\n" if machine.link_flags else "",
        "GOALS": goals if machine.is_bare else filled(GOALS, {"USAGE": usage, "LENGTH": length}),
        "OBJECTS": objects,
        "TARGET": default + ("" if is_host else PROGRAMS),
        "PROGRAMS": "" if is_host else "main.o bench.o model_run model_bench",
        "PHONY": default.partition(":")[0],
        "ASSEMBLED": "model_weights.o: model.weights\n" if is_included else "",
    }
    return filled(MAKEFILE, holes)
