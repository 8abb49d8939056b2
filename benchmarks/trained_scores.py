"""Score a model in torch on images with labels of pixels, with quantized values as integers."""

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from dataclasses import replace

import torch

from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.transforms.quantization.analysis.qdq import carries_quantization
from ceras_ir.workbench.training.examples import load_examples
from ceras_ir.workbench.training.losses import Score
from ceras_ir.workbench.training.session import student_of
from ceras_ir.workbench.training.torch_network import TorchNetwork


def score_of(path: str, folder: str, batch: int = 8) -> tuple[int, int, float, float]:
    """Return height, width, mean IoU and the share of correct pixels."""
    module = read_network(path)
    inputs = network_inputs(main_function(module))
    examples = load_examples(folder, None, inputs)
    kind = "int8" if carries_quantization(module) else "none"
    network = TorchNetwork(student_of(module, replace(BuildOptions(), quantize=kind)).module)
    assert examples.labels is not None
    images, labels = torch.from_numpy(examples.inputs[0][:, 0]), torch.from_numpy(examples.labels)
    score = Score()
    with torch.no_grad():
        for x, y in zip(images.split(batch), labels.split(batch), strict=True):
            score.add(next(iter(network([x])[0].values())), y)
    _, _, height, width = inputs[0].shape
    return height, width, score.value(), score.accuracy()
