"""
Define quantizers of QONNX for the reference evaluator of ONNX, which does not know them.

The formulas are those of the documentation of QONNX (docs/qonnx-custom-ops in its repository), in
float32. The importer shares no code with this file.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun

DOMAINS = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")

Array = NDArray[Any]

_CHANNELS = {2: "NC", 3: "NWC", 4: "NCHW"}


def _rounded(x: Array, mode: str) -> Array:
    magnitude, sign = np.abs(x), np.sign(x)
    match mode.upper():
        case "ROUND" | "HALF_EVEN":
            return np.round(x)
        case "CEIL":
            return np.ceil(x)
        case "FLOOR":
            return np.floor(x)
        case "UP":
            return sign * np.ceil(magnitude)
        case "DOWN" | "ROUND_TO_ZERO":
            return sign * np.floor(magnitude)
        case "HALF_UP":
            return sign * np.floor(magnitude + np.float32(0.5))
        case "HALF_DOWN":
            return sign * np.ceil(magnitude - np.float32(0.5))
        case _:
            raise ValueError(f"unknown rounding mode {mode}")


def quant(x: Array, scale: Array, zero_point: Array, bits: Array, **attributes: Any) -> Array:
    """Evaluate Quant (IntQuant)."""
    signed, narrow = int(attributes.get("signed", 1)), int(attributes.get("narrow", 0))
    width = float(bits.reshape(-1)[0])
    low = -(2 ** (width - 1)) + narrow if signed else 0
    high = 2 ** (width - 1) - 1 if signed else 2**width - 1 - narrow
    steps = np.clip(x / scale + zero_point, np.float32(low), np.float32(high))
    return (_rounded(steps, str(attributes.get("rounding_mode", "ROUND"))) - zero_point) * scale


def bipolar_quant(x: Array, scale: Array, **attributes: Any) -> Array:
    """Evaluate BipolarQuant."""
    return np.where(x >= 0, scale, -scale)


def multi_threshold(x: Array, thresholds: Array, **attributes: Any) -> Array:
    """Evaluate MultiThreshold."""
    layout = str(attributes.get("data_layout", "")) or _CHANNELS.get(x.ndim, "NC")
    axis = max(layout.find("C"), 0)
    reached = np.moveaxis(x, axis, -1)[..., None] >= thresholds
    scale, bias = float(attributes.get("out_scale", 1.0)), float(attributes.get("out_bias", 0.0))
    return np.moveaxis(reached.sum(axis=-1) * scale + bias, -1, axis)


FUNCTIONS = {
    "Quant": quant,
    "IntQuant": quant,
    "BipolarQuant": bipolar_quant,
    "MultiThreshold": multi_threshold,
}


def qonnx_operators() -> "list[type[OpRun]]":
    """Return the classes of the quantizers, for each domain."""
    from onnx.helper import get_attribute_value
    from onnx.reference.op_run import OpRun

    def run(self: OpRun, *inputs: Array, **attributes: object) -> tuple[Array]:
        given = {a.name: get_attribute_value(a) for a in self.onnx_node.attribute}
        texts = {k: v.decode() if isinstance(v, bytes) else v for k, v in given.items()}
        return (FUNCTIONS[self.onnx_node.op_type](*inputs, **texts).astype(np.float32),)

    return [
        type(name, (OpRun,), {"op_domain": domain, "_run": run})
        for domain in DOMAINS
        for name in FUNCTIONS
    ]
