"""
Convert, load and time a network in another runtime. `peers.py` starts this program with the Python
of the environment of the runtime; it needs only numpy and the runtime.

    python peer_process.py convert PEER KIND MODEL.onnx DATA.npz FOLDER METHOD
    python peer_process.py serve PEER FORM THREADS ISA DATA.npz

`convert` writes the form of the network that `serve` loads, and prints its path. `serve` answers
lines: `run SECONDS` with the medians of a run, `outputs FILE.npz` with the outputs of sample 0.
Answers are JSON after `@`, because runtimes print too.
"""

# Not strict: runtimes are not installed, or have no types.
# pyright: basic, reportMissingImports=false

import ctypes
import importlib.metadata
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ARCH_PRCTL, GET_PERMISSION, TILE_DATA = 158, 0x1022, 18
"""The system call for permissions of x86-64, and the bit of the tile registers of AMX."""

SMALL_STACK = 8192
"""The bytes of a signal stack that holds the state of AVX-512, but not of AMX."""

LIBC = ctypes.CDLL(None, use_errno=True)


class _SignalStack(ctypes.Structure):
    _fields_ = (("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


def forbid_tiles() -> Any:
    """
    Make each later request of this process for the tile registers of AMX fail: Linux refuses them
    while a thread has a signal stack that cannot hold them. Return the stack, which must live on.
    """
    memory = ctypes.create_string_buffer(SMALL_STACK)
    stack = _SignalStack(ctypes.cast(memory, ctypes.c_void_p), 0, SMALL_STACK)
    if LIBC.sigaltstack(ctypes.byref(stack), None):
        raise OSError(ctypes.get_errno(), "sigaltstack")
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_VNNI"
    return memory


def has_tiles() -> bool:
    """Return whether this process requested, and has, the tile registers of AMX."""
    mask = ctypes.c_uint64()
    failed = LIBC.syscall(ARCH_PRCTL, GET_PERMISSION, ctypes.byref(mask))
    return not failed and bool(mask.value >> TILE_DATA & 1)


class Refused(Exception):
    """The reason why a runtime cannot run a network."""


Feeds = dict[str, Any]


class OnnxRuntime:
    """ONNX Runtime. With `is_plain`, it is the reference: without optimization of the graph."""

    packages = ("onnxruntime",)

    def __init__(self, form: str, threads: int, feeds: Feeds, *, is_plain: bool = False):
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        if is_plain:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session: Any = ort.InferenceSession(form, options, ["CPUExecutionProvider"])
        self.names = [o.name for o in self.session.get_outputs()]
        self.feeds = feeds

    def run(self) -> list[Any]:
        return self.session.run(None, self.feeds)

    def outputs(self) -> Feeds:
        return dict(zip(self.names, self.run(), strict=True))

    def details(self) -> str:
        return "float32 or the types of the model"


class OpenVino:
    """OpenVINO, latency of one stream, float operations in float32."""

    packages = ("openvino", "nncf")

    def __init__(self, form: str, threads: int, feeds: Feeds):
        import openvino as ov

        core = ov.Core()
        options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                   "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}  # fmt: skip
        self.compiled = core.compile_model(form, "CPU", options)
        self.request = self.compiled.create_infer_request()
        for name, array in feeds.items():
            self.request.set_tensor(name, ov.Tensor(array, shared_memory=True))

    def run(self) -> None:
        # Tensors are set already: inputs are copied in no runtime.
        self.request.start_async()
        self.request.wait()

    def outputs(self) -> Feeds:
        self.run()
        return {o.get_any_name(): self.request.get_tensor(o).data for o in self.compiled.outputs}

    def details(self) -> str:
        """Return the kernels of the layers that have constant weights, with their counts."""
        counts: dict[str, int] = {}
        for op in self.compiled.get_runtime_model().get_ops():
            info = op.get_rt_info()
            kind = str(info["layerType"].astype(str))
            if kind in ("Convolution", "FullyConnected", "MatMul", "LSTMSequence", "Deconvolution"):
                name = str(info["primitiveType"].astype(str))
                counts[name] = counts.get(name, 0) + 1
        precision = self.compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
        return ", ".join([precision, *(f"{k} x{n}" for k, n in sorted(counts.items()))])


class Mnn:
    """MNN, with precision `high`, or memory `low` for networks with 8-bit weights."""

    packages = ("mnn",)

    def __init__(self, form: str, threads: int, feeds: Feeds):
        import MNN

        self.mnn = MNN
        low = {"memory": "low"} if form.endswith(".weights.mnn") else {}
        self.interpreter = MNN.Interpreter(form)
        self.session = self.interpreter.createSession(
            {"backend": "CPU", "numThread": threads, "precision": "high", **low}
        )
        kind = MNN.Tensor_DimensionType_Caffe
        self.inputs = [
            (
                self.interpreter.getSessionInput(self.session, name),
                MNN.Tensor(array.shape, MNN.Halide_Type_Float, array, kind),
            )
            for name, array in feeds.items()
        ]

    def run(self) -> None:
        # A run overwrites the memory of inputs.
        for tensor, host in self.inputs:
            tensor.copyFrom(host)
        self.interpreter.runSession(self.session)

    def outputs(self) -> Feeds:
        self.run()
        found: Feeds = {}
        for name, tensor in self.interpreter.getSessionOutputAll(self.session).items():
            shape = tensor.getShape()
            host = self.mnn.Tensor(
                shape, self.mnn.Halide_Type_Float, np.zeros(shape, np.float32),
                self.mnn.Tensor_DimensionType_Caffe,
            )  # fmt: skip
            tensor.copyToHostTensor(host)
            found[name] = np.array(host.getNumpyData(), np.float32)
        return found

    def details(self) -> str:
        return "precision high"


class Ncnn:
    """ncnn, in float32 without 16-bit storage."""

    packages = ("ncnn", "pnnx")

    def __init__(self, form: str, threads: int, feeds: Feeds):
        import ncnn

        self.net = ncnn.Net()
        options = self.net.opt
        options.num_threads, options.use_bf16_storage = threads, False
        options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
        if self.net.load_param(form) or self.net.load_model(form.replace(".param", ".bin")):
            raise Refused("load_param or load_model fails")
        # pnnx numbers inputs in the order of the model, and removes the batch, the first axis of 1.
        arrays = (np.take(a, 0, a.shape.index(1)) for a in feeds.values())
        mats = [ncnn.Mat(np.ascontiguousarray(array)).clone() for array in arrays]
        self.mats = list(zip(self.net.input_names(), mats, strict=True))
        self.names = self.net.output_names()

    def run(self) -> list[Any]:
        extractor = self.net.create_extractor()
        for name, mat in self.mats:
            extractor.input(name, mat)
        found = [extractor.extract(name) for name in self.names]
        if any(status for status, _ in found):
            raise Refused("extract fails")
        return [mat for _, mat in found]

    def outputs(self) -> Feeds:
        return {n: np.array(m) for n, m in zip(self.names, self.run(), strict=True)}

    def details(self) -> str:
        return "float32"


class LiteRt:
    """LiteRT with XNNPACK."""

    packages = ("ai-edge-litert", "onnx2tf")

    def __init__(self, form: str, threads: int, feeds: Feeds):
        from ai_edge_litert.interpreter import Interpreter

        self.interpreter = Interpreter(form, num_threads=threads)
        self.interpreter.allocate_tensors()
        given = self.interpreter.get_input_details()
        for detail in given:
            array = _of_shape(next(iter(feeds.values())), detail["shape"])
            if len(given) > 1:
                raise Refused("the converter renames inputs, and there are several")
            scale, zero = detail["quantization"]
            if scale:
                limits = np.iinfo(detail["dtype"])
                array = np.clip(np.round(array / scale) + zero, limits.min, limits.max)
            self.interpreter.set_tensor(detail["index"], array.astype(detail["dtype"]))

    def run(self) -> None:
        self.interpreter.invoke()

    def outputs(self) -> Feeds:
        self.run()
        found: Feeds = {}
        for detail in self.interpreter.get_output_details():
            scale, zero = detail["quantization"]
            array = self.interpreter.get_tensor(detail["index"]).astype(np.float32)
            found[detail["name"]] = (array - zero) * scale if scale else array
        return found

    def details(self) -> str:
        return "XNNPACK"


def _of_shape(array: Any, shape: Any) -> Any:
    """Return an NCHW array in the layout of TensorFlow, if `shape` has it."""
    if tuple(array.shape) != tuple(shape) and array.ndim > 2:
        array = np.moveaxis(array, 1, -1)
    return np.ascontiguousarray(array)


ENGINES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "mnn": Mnn, "ncnn": Ncnn,
           "litert": LiteRt}  # fmt: skip


def versions(peer: str) -> str:
    found: list[str] = []
    for package in ENGINES[peer].packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def timed(engine: Any, seconds: float) -> dict[str, float]:
    """Return medians over `seconds`, in milliseconds, after a third of the time to warm up."""
    process: list[float] = []
    wall: list[float] = []
    start = time.perf_counter()
    while time.perf_counter() - start < seconds / 3:
        engine.run()
    start = time.perf_counter()
    while len(wall) < 3 or time.perf_counter() - start < seconds:
        used, begun = time.process_time(), time.perf_counter()
        engine.run()
        wall.append((time.perf_counter() - begun) * 1e3)
        process.append((time.process_time() - used) * 1e3)
    return {"process": statistics.median(process), "wall": statistics.median(wall)}


def answer(value: object) -> None:
    print("@" + json.dumps(value), flush=True)


def serve(peer: str, form: str, threads: int, isa: str, data: Path) -> None:
    kept = forbid_tiles() if isa == "vnni" else None
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    with np.load(data) as arrays:
        feeds = {name: np.ascontiguousarray(arrays[name][0]) for name in arrays}
    if peer == "reference":
        engine: Any = OnnxRuntime(form, threads, feeds, is_plain=True)
    else:
        engine = ENGINES[peer](form, threads, feeds)
    engine.run()
    tiles = "AMX" if has_tiles() else "no AMX"
    answer({"details": f"{tiles}; {engine.details()}"})
    for line in sys.stdin:
        command, argument = line.split(maxsplit=1)
        if command == "run":
            answer(timed(engine, float(argument)))
        else:
            np.savez(argument.strip(), **engine.outputs())
            answer({})
    del kept


def main() -> None:
    command, peer, *rest = sys.argv[1:]
    try:
        if command == "versions":
            answer({"versions": versions(peer)})
        elif command == "convert":
            from peer_conversions import convert

            answer({"form": str(convert(peer, *rest))})
        else:
            serve(peer, rest[0], int(rest[1]), rest[2], Path(rest[3]))
    except Exception as error:  # Any failure of a runtime is a cell of the table.
        text = str(error).strip().splitlines() or [type(error).__name__]
        answer({"refused": text[0][:160]})


if __name__ == "__main__":
    main()
