"""Test `--name`: two models in a program, and legal names."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from backends.arduino.networks import colour_mlp, colours
from backends.arduino.sketches import build_sketch, run_sketch
from backends.c.test_machine import needs_cmake, shell
from c_harness import Array, check, constant, make_network, needs_arm, place, random_inputs
from conftest import Tool
from firmware import write_files
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.arduino.target import ArduinoTarget
from ceras_ir.backends.c import emulator
from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions, load_board
from ceras_ir.backends.c.names import MODEL, Prefix, WeightStorage
from ceras_ir.command.output_files import write_artefacts
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import InputError, UsageError

NAMES = ("kws", "vision2")
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-ffp-contract=off")
COLOUR = Path(__file__).parents[3] / "examples/colour/colour.onnx"
Q = UniformType(0.5)


def integers(seed: int, channels: int) -> ModuleOp:
    """Return a convolution of bytes, with a unique result."""
    rng = np.random.default_rng(seed)

    def build(x: SSAValue) -> list[SSAValue]:
        weights = rng.integers(-128, 128, (channels, 3, 3, 4)).astype(np.int8)
        how = RequantAttr(9)
        return [
            graph.Conv2dOp(
                x, constant(weights, Q), result_element=Q, requant=how, padding=(1, 1, 1, 1)
            ).result
        ]

    return place(make_network([(Q, (1, 5, 5, 4))], build))


@dataclass(frozen=True)
class Pair:
    """Two networks with files in a shared folder, and a program that runs both."""

    folder: Path
    sources: list[Path]
    expected: list[Array]

    def verdict(self, printed: str) -> None:
        """Check the results, which the program prints as integers, network by network."""
        numbers = np.array([int(word) for word in printed.split()])
        wanted = np.concatenate([e.reshape(-1).astype(np.int64) for e in self.expected])
        np.testing.assert_array_equal(numbers, wanted)


def literals(array: Array) -> str:
    return ", ".join(str(int(v)) for v in array.reshape(-1))


def two_models(folder: Path, weights: WeightStorage = "source", show: str = "printf") -> Pair:
    """Write both into a folder, as a user copies them."""
    sources: list[Path] = []
    expected: list[Array] = []
    body = data = ""
    for number, name in enumerate(NAMES):
        module = integers(number, 8 + 8 * number)
        options = COptions(prefix=Prefix(name), weights=weights)
        kept = [a for a in emit(module, options) if a.path.startswith(name)]
        write_files(kept, folder)
        sources += [folder / a.path for a in kept if a.path.endswith(".c")]
        sample = random_inputs(module, number)
        expected.append(run(module, sample)["output0"])
        upper = name.upper()
        data += f"static const int8_t {name}_x[] = {{{literals(sample['input0'])}}};\n"
        data += f"{upper}_CHECK_BUFFER({name}_x, {upper}_INPUT0_SIZE);\n"
        data += f"static int8_t {name}_y[{upper}_OUTPUT0_SIZE];\n"
        body += f"  if ({name}_run({name}_x, {name}_y) != {upper}_OK) return 1;\n"
        body += f'  for (int i = 0; i < {upper}_OUTPUT0_SIZE; ++i) {show}("%d\\n", {name}_y[i]);\n'
    includes = "".join(f'#include "{name}.h"\n' for name in NAMES)
    main = folder / "user.c"
    main.write_text(
        f"#include <stdio.h>\n{includes}{data}int main(void)\n{{\n{body}  return 0;\n}}\n"
    )
    return Pair(folder, [main, *sources], expected)


@pytest.mark.parametrize("weights", ["source", "incbin"])
def test_two_models_link_into_one_program(tmp_path: Path, weights: WeightStorage):
    pair = two_models(tmp_path, weights)
    command = ["cc", *STRICT, f"-Wa,-I,{tmp_path}", *map(str, pair.sources), "-o"]
    subprocess.run([*command, str(tmp_path / "both")], check=True)
    done = subprocess.run([tmp_path / "both"], capture_output=True, text=True, check=True)
    pair.verdict(done.stdout)


@pytest.mark.slow
def test_every_name_that_a_linker_sees_has_the_prefix(tmp_path: Path):
    pair = two_models(tmp_path)
    for source in pair.sources[1:]:
        subprocess.run(["cc", "-c", *STRICT, str(source), "-o", f"{source}.o"], check=True)
        names = subprocess.run(
            ["nm", "-g", "--defined-only", f"{source}.o"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        prefix = source.stem.partition("_")[0]
        found = [line.split()[-1] for line in names.splitlines()]
        assert found and all(name.startswith(f"{prefix}_") for name in found), found
    header = (tmp_path / "kws.h").read_text()
    macros = re.findall(r"#\s*define (\w+)", header)
    assert macros and all(macro.startswith("KWS_") for macro in macros)


@needs_arm
def test_two_models_link_for_a_microcontroller(tmp_path: Path):
    """Run the same program on an emulated Cortex-M4."""
    pair = two_models(tmp_path, show="say")
    main = pair.sources[0]
    text = main.read_text().replace("#include <stdio.h>", SAY)
    main.write_text(text)
    board = load_board("uno_r4_wifi")
    elf = emulator.build_elf(pair.sources, board, tmp_path, include=[tmp_path], flags=("-Os",))
    pair.verdict(emulator.run_elf(elf, tmp_path))


SAY = """\
#include "semihosting.h"
static void say(const char *format, int value)
{
  char text[8], *at = text + 7;
  int rest = value < 0 ? -value : value;
  (void)format;
  *at = 0, *--at = '\\n';
  do *--at = (char)('0' + rest % 10); while (rest /= 10);
  if (value < 0) *--at = '-';
  semihosting(0x04 /* SYS_WRITE0 */, at);
}
"""


@pytest.mark.slow
@needs_cmake
def test_cmake_takes_both(tmp_path: Path):
    """Both are subdirectories of a project, each a library with its own name."""
    pair = two_models(tmp_path)
    for number, name in enumerate(NAMES):
        options = COptions(prefix=Prefix(name))
        write_files(emit(integers(number, 8 + 8 * number), options), tmp_path / name)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(user C)\n"
        "add_subdirectory(kws)\nadd_subdirectory(vision2)\nadd_executable(both user.c)\n"
        "target_link_libraries(both kws::kws vision2::vision2)\n"
    )
    shell("cmake", "-S", tmp_path, "-B", tmp_path / "build")
    shell("cmake", "--build", tmp_path / "build")
    done = subprocess.run([tmp_path / "build/both"], capture_output=True, text=True, check=True)
    pair.verdict(done.stdout)


def test_tensors_may_be_called_like_functions():
    """The parameter is renamed, the program of the user is unchanged."""
    module = make_network([(f32, (1, 3))], lambda x: [graph.ReshapeOp(x, (3,)).result])
    main = main_function(module)
    main.arg_attrs = ArrayAttr([DictionaryAttr({"graph.name": StringAttr("kws_run_in")})])
    check(module, options=COptions(prefix=Prefix("kws")))


def test_comments_keep_the_names_of_layers():
    """Keras starts the names with `model_1/`."""
    text = "/* layer_0 of model_1/conv: model_run, -DMODEL_LANES=0 */ model_run(layer_0_bias);"
    assert Prefix("kws").renamed(text) == (
        "/* layer_0 of model_1/conv: kws_run, -DKWS_LANES=0 */ kws_run(kws_layer_0_bias);"
    )
    assert MODEL.renamed(text) == text


@pytest.mark.parametrize(
    "name", ["1st", "a b", "a-b", "_x", "", "x" * 41, "m\u00e9", "while", "Int"]
)
def test_bad_names_are_refused(name: str):
    with pytest.raises(UsageError, match="--name"):
        Prefix(name)


def test_manifests_are_not_trusted():
    assert Prefix.of_manifest({}) == MODEL
    for value in ("../model", 3, "int"):
        with pytest.raises(InputError, match="names no prefix"):
            Prefix.of_manifest({"prefix": value})


@pytest.mark.slow
def test_folders_of_any_name_run(tool: Tool, tmp_path: Path):
    """Compile, run, and refuse illegal names with the status of wrong usage."""
    np.savez(tmp_path / "in.npz", input=np.stack([c["input0"][0] for c in colours(3)]))
    outputs: list[bytes] = []
    for target, name in (("c", "kws"), ("arduino", "Colours")):
        options = ["--target", target, "--name", name, "--encoding", "csr", "-o", target]
        done = tool("ceras-compile", COLOUR, *options)
        assert done.status == 0, done.stderr
        done = tool("ceras-run", target, "--inputs", "in.npz", "--outputs", f"{target}.npz")
        assert done.status == 0, done.stderr
        outputs.append(np.load(tmp_path / f"{target}.npz")["output"].tobytes())
    assert outputs[0] == outputs[1]
    sketch = tmp_path / "arduino/Colours"
    assert "Colours_predict(input, output)" in (sketch / "Colours.ino").read_text()
    assert "includes=Colours_predict.h" in (sketch / "library.properties").read_text()
    done = tool("ceras-compile", COLOUR, "--target", "c", "--name", "int", "-o", "refused")
    assert done.status == 2 and "--name 'int'" in done.stderr, done.stderr
    assert not (tmp_path / "refused").exists()


@pytest.mark.slow
@needs_arm
def test_a_named_sketch_equals_the_interpreter_on_its_core(tmp_path: Path):
    built = build(colour_mlp(12), BuildOptions(ArduinoTarget(prefix="corrector")))
    write_artefacts(tmp_path, built.files())
    sketch = tmp_path / "corrector"
    elf = build_sketch(sketch, sketch / "corrector.ino", tmp_path / "work")
    samples = colours(3)
    answers, _ = run_sketch(elf, tmp_path / "work", np.concatenate([s["input0"] for s in samples]))
    expected = np.concatenate([run(built.module, s)["output0"] for s in samples])
    np.testing.assert_array_equal(answers.reshape(expected.shape), expected)
