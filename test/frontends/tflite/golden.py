"""
Store the results of the reference kernels of TensorFlow Lite for the networks of `tflite_cases.py`.

    python test/frontends/tflite/golden.py

writes `golden.npz` beside this file. It needs the package ai-edge-litert, in a separate
environment: python -m venv litert; litert/bin/pip install ai-edge-litert.
"""

import sys
import zlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent
GOLDEN = FOLDER / "golden.npz"


def results(
    data: bytes, samples: Sequence[NDArray[np.generic]], kernels: str = "BUILTIN_REF"
) -> Sequence[NDArray[np.generic]]:
    """
    Run a file on samples in kernels, by default the reference kernels, a call for each. `samples`
    has an array for each input, with the samples along the first dimension, and so has the result
    for each output.
    """
    litert: Any = import_module("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(
        model_content=data,
        experimental_op_resolver_type=litert.OpResolverType[kernels],
        num_threads=1,
    )
    interpreter.allocate_tensors()
    outputs = interpreter.get_output_details()
    found: list[list[NDArray[np.generic]]] = [[] for _ in outputs]
    for i in range(len(samples[0])):
        for each, array in zip(interpreter.get_input_details(), samples, strict=True):
            interpreter.set_tensor(each["index"], array[i])
        interpreter.invoke()
        for each, arrays in zip(outputs, found, strict=True):
            arrays.append(interpreter.get_tensor(each["index"]))
    return [np.stack(arrays) for arrays in found]


def main() -> None:
    sys.path[:0] = [str(FOLDER.parents[1]), str(FOLDER.parents[2])]
    from tflite_cases import CASES, inputs_of

    arrays: dict[str, NDArray[np.generic]] = {}
    for name, build in CASES.items():
        model = build()
        data = model.data()
        arrays[f"{name}|crc"] = np.array(zlib.crc32(data), np.uint32)
        found = results(data, list(inputs_of(name, model).values()))
        for output, array in zip(model.outputs, found, strict=True):
            arrays[f"{name}|{model.tensors[output].name}"] = array
    np.savez_compressed(GOLDEN, allow_pickle=False, **arrays)
    print(f"{len(CASES)} networks, {GOLDEN.stat().st_size} bytes")


if __name__ == "__main__":
    main()
