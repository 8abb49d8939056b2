"""
Convert an ONNX model to the form that another runtime loads, in float, int8 or int4.

1. ONNX Runtime: `quantize_static` to QDQ, unsigned activations and signed weights per channel;
   `quantize_dynamic` for LSTMs and decoders.
2. OpenVINO: `nncf.quantize`, or 8-bit weights by `nncf.compress_weights` for decoders.
3. MNN: `mnnquant`, or the dynamic 8-bit quantization of its converter for matrix products.
4. ncnn: pnnx, float only; its tools for int8 are not in a package.
5. LiteRT: onnx2tf, with full integer quantization for int8.

int4 is for decoders: weights in blocks of 128 inputs. ONNX Runtime: `block_models.py`, from which
C is compiled, too. OpenVINO: `nncf.compress_weights`. MNN: 4-bit weights of its converter.

METHOD is `static`, `transformer`, `dynamic` (LSTM), or `weights` (a decoder).
"""

# Not strict: runtimes are not installed, or have no types.
# pyright: basic, reportMissingImports=false

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from peer_process import Refused

BLOCK = 128
"""The weights of a block in int4, the default of nncf."""

SAMPLES = 8
"""The number of calibration samples."""


def convert(peer: str, kind: str, model: str, data: str, folder: str, method: str) -> Path:
    """Return the path of the form of a model for `peer`, in `folder`."""
    with np.load(data) as arrays:
        samples = {name: arrays[name] for name in arrays}
    return CONVERSIONS[peer](kind, Path(model), samples, Path(folder), method)


def each(samples: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for n in range(min(SAMPLES, len(next(iter(samples.values()))))):
        yield {name: np.ascontiguousarray(array[n]) for name, array in samples.items()}


def onnxruntime(kind: str, model: Path, samples: Any, folder: Path, method: str) -> Path:
    if kind == "float":
        return model
    if kind == "int4":
        import onnx
        from block_models import in_blocks

        form = folder / "ort-int4.onnx"
        onnx.save(in_blocks(onnx.load(model), 4, BLOCK), form)
        return form
    from c_host_peers import quantization, quantize

    form = folder / "ort-int8.onnx"
    if method in ("dynamic", "weights"):
        quantization.quantize_dynamic(model, form, op_types_to_quantize=["LSTM", "MatMul"])
    else:
        quantize(model, form, each(samples))
    return form


def openvino(kind: str, model: Path, samples: Any, folder: Path, method: str) -> Path:
    import openvino as ov

    network = ov.convert_model(model)
    if kind == "int8":
        import nncf

        if method == "dynamic":
            raise Refused("nncf has no 8-bit LSTM for the CPU")
        if method == "weights":
            network = nncf.compress_weights(network, mode=nncf.CompressWeightsMode.INT8_ASYM)
        else:
            network = nncf.quantize(
                network,
                nncf.Dataset(list(each(samples))),
                subset_size=SAMPLES,
                model_type=nncf.ModelType.TRANSFORMER if method == "transformer" else None,
            )
    if kind == "int4":
        import nncf

        mode = nncf.CompressWeightsMode.INT4_SYM
        network = nncf.compress_weights(
            network, mode=mode, group_size=BLOCK, ratio=1.0, all_layers=True
        )
    form = folder / f"openvino-{kind}.xml"
    ov.save_model(network, form, compress_to_fp16=False)
    return form


def mnn(kind: str, model: Path, samples: Any, folder: Path, method: str) -> Path:
    # The commands of the package install and call telemetry; the module below does not.
    import _tools  # pyright: ignore

    form = folder / "float.mnn"
    command = ["mnnconvert", "-f", "ONNX", "--modelFile", str(model), "--bizCode", "x"]
    if kind == "int4" or (kind == "int8" and method in ("weights", "transformer")):
        form = folder / f"{kind}.weights.mnn"
        command += ["--weightQuantBits", kind.removeprefix("int")]
        command += ["--weightQuantBlock", str(BLOCK)] if kind == "int4" else []
    _tools.mnnconvert([*command, "--MNNModel", str(form)])
    if not form.exists():
        raise Refused("mnnconvert fails")
    if kind == "float" or form.name != "float.mnn":
        return form
    if method == "dynamic":
        raise Refused("mnnquant does not quantize LSTM")
    place, quantized = folder / "mnn-samples", folder / "int8.mnn"
    for n, sample in enumerate(each(samples)):
        (one := place / f"input_{n}").mkdir(parents=True, exist_ok=True)
        shapes = [{"name": name, "shape": list(a.shape)} for name, a in sample.items()]
        (one / "input.json").write_text(json.dumps({"inputs": shapes, "outputs": []}))
        for name, array in sample.items():
            np.savetxt(one / f"{name}.txt", array.reshape(-1))
    config = folder / "mnn.json"
    config.write_text(
        json.dumps(
            {
                "path": f"{place}/",
                "used_sample_num": SAMPLES,
                "feature_quantize_method": "KL",
                "weight_quantize_method": "MAX_ABS",
                "input_type": "sequence",
                "batch_size": 1,
                "quant_bits": 8,
            }
        )
    )
    _tools.mnnquant(["mnnquant", str(form), str(quantized), str(config)])
    if not quantized.exists():
        raise Refused("mnnquant fails")
    return quantized


def ncnn(kind: str, model: Path, samples: Any, folder: Path, method: str) -> Path:
    if kind != "float":
        raise Refused(f"the tools for {kind} are not in a package")
    # `import pnnx` needs torch; the program does not.
    package = find_spec("pnnx")
    if package is None or package.origin is None:
        raise Refused("no module pnnx")
    (place := folder / "ncnn").mkdir(exist_ok=True)
    shutil.copy(model, place / "model.onnx")
    program = Path(package.origin).with_name("pnnx")
    done = subprocess.run([program, "model.onnx", "fp16=0"], cwd=place, capture_output=True)
    form = place / "model.ncnn.param"
    if done.returncode or not form.exists():
        raise Refused("pnnx fails")
    custom = [s.split()[0] for s in form.read_text().splitlines() if "." in s.split()[0]]
    if custom:
        raise Refused(f"ncnn has no {', '.join(sorted(set(custom)))}")
    return form


def litert(kind: str, model: Path, samples: Any, folder: Path, method: str) -> Path:
    if kind == "int4":
        raise Refused("onnx2tf has no weights of 4 bits")
    (place := folder / f"litert-{kind}").mkdir(exist_ok=True)
    command = [str(Path(sys.executable).with_name("onnx2tf")), "-i", str(model), "-o", str(place),
               "-n", "-b", "1"]  # fmt: skip
    if kind == "int8":
        if len(samples) > 1:
            raise Refused("onnx2tf renames inputs, and there are several")
        ((name, array),) = samples.items()
        stored = folder / "litert-samples.npy"
        array = array[:SAMPLES, 0] if array.shape[1] == 1 else array[:SAMPLES]
        np.save(stored, np.moveaxis(array, 1, -1) if array.ndim > 2 else array)
        command += ["-oiqt", "-qt", "per-channel", "-cind", name, str(stored), "0", "1"]
    # Without this file, onnx2tf downloads images for a comparison that `-n` does not skip.
    images = np.random.default_rng(0).random((20, 128, 128, 3), np.float32)
    np.save(place / "calibration_image_sample_data_20x128x128x3_float32.npy", images)
    done = subprocess.run(command, capture_output=True, text=True, cwd=place)
    found = "integer_quant" if kind == "int8" else "float32"
    forms = sorted(place.glob(f"*_{found}.tflite"))
    if not forms:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason"]
        raise Refused(f"onnx2tf fails: {lines[-1][:100]}")
    return forms[0]


CONVERSIONS = {"onnxruntime": onnxruntime, "openvino": openvino, "mnn": mnn, "ncnn": ncnn,
               "litert": litert}  # fmt: skip
