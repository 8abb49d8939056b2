"""If no operation runs on VTA, the folder is C as for other targets, with a separate workspace."""

from pathlib import Path

import numpy as np
from onnx_models import Array, model, node, weights

from ceras_ir.backends.c.runner import CompiledC
from ceras_ir.backends.vta.target import VtaTarget
from ceras_ir.command.output_files import write_artefacts
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.build import build, open_folder
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages


def test_network_without_launches(tmp_path: Path):
    # A convolution with a computed bias remains float. Its C code gathers windows into a workspace
    # that is not part of the memory plan of the accelerator.
    rng = np.random.default_rng(0)
    shapes = {"x": (1, 6, 40, 40), "b": (12,)}
    nodes = [node("Conv", "x w b", "y", strides=[3, 3])]
    proto = model(nodes, shapes, ["y"], {"w": weights(rng, 12, 6, 5, 5)})
    module = import_model(proto)
    options = BuildOptions(VtaTarget())
    reference = module.clone()
    run_stages(load_context(), reference, front_stages(options))
    inputs: dict[str, Array] = {
        name: rng.uniform(0, 1, shape).astype(np.float32) for name, shape in shapes.items()
    }
    write_artefacts(tmp_path / "out", build(module, options).files())
    folder = open_folder(tmp_path / "out")
    assert isinstance(folder, CompiledC) and not (tmp_path / "out" / "launch_0.insns").exists()
    (actual,) = folder.run([inputs])
    for name, expected in run(reference, inputs).items():
        np.testing.assert_array_equal(actual[name], expected)
