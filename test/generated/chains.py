"""Build elementwise chains with extreme constants: guards for logarithms, roots, quotients."""

from __future__ import annotations

import numpy as np
from generated import spelling as s
from generated.builder import Builder, Case, Value, extreme, normal

SMALL = (1e-12, 1e-10, 1e-7, 1.1920929e-07, 1e-20, 1e-38, 1.1754944e-38, 1e-5, 1e-3, 1e-30)
LARGE = (1e4, 1e10, 1e20, 3e38, 6.0, 20.0, 88.0, 127.0)


def chain(b: Builder) -> Case:
    """Build two to six elementwise steps on values of all magnitudes."""
    shape = (b.size(1, 3), b.size(4, 9))
    x = b.input(shape, b.pick(extreme, extreme, normal))
    first = x
    for _ in range(b.size(2, 6)):
        x = b.pick(guarded, guarded, bounded, function, arithmetic, combined)(b, x, first)
        if b.chance(0.1):
            b.output(x)
    b.output(x)
    return b.case(samples=4)


def front_end(b: Builder) -> Case:
    """Build a speech front end: power, mel filters, a guarded logarithm, normalization."""
    frames, bins, filters = b.size(2, 4), b.size(6, 12), b.size(3, 6)
    x = b.input((1, frames, bins), b.pick(extreme, normal))
    power = b.emit("Mul", x, x) if b.chance(0.5) else b.emit("Abs", x)
    bank = b.constant(
        np.abs(b.random.normal(0, 0.3, (bins, filters))) * (b.random.random((bins, filters)) < 0.6)
    )
    mel = b.emit("MatMul", power, bank, shape=(1, frames, filters))
    logs = b.emit("Log", guard(b, mel))
    if b.chance(0.4):
        logs = b.emit("Mul", logs, b.constant(10 / np.log(10)))
    if b.chance(0.3):
        peak = s.reduce(b, "ReduceMax", logs, 0, 1, 2)
        floor = b.emit("Sub", peak, b.constant(8.0))
        if b.opset >= 8:
            logs = b.emit("Max", logs, floor)
    if b.chance(0.5):
        mean = s.reduce(b, "ReduceMean", logs, 1)
        centred = b.emit("Sub", logs, mean)
        square = s.reduce(b, "ReduceMean", b.emit("Mul", centred, centred), 1)
        root = b.emit("Sqrt", square)
        logs = b.emit("Div", centred, guard(b, root))
    b.output(logs)
    return b.case(samples=4)


def guard(b: Builder, x: Value) -> Value:
    """Keep values away from 0 by a bound or by a sum."""
    least = b.pick(*SMALL)
    match b.size(0, 3):
        case 0:
            return s.clip(b, x, least)
        case 1:
            return b.emit("Add", x, b.constant(least))
        case 2:
            return b.emit(
                "Max",
                x,
                b.constant(np.full(x.shape, least) if b.opset < 8 else least),
                shape=x.shape,
            )
        case _:
            return b.emit("Add", b.emit("Relu", x), b.constant(least))


def guarded(b: Builder, x: Value, first: Value) -> Value:
    """Append a function with a pole, of a guarded argument."""
    match b.size(0, 6):
        case 0:
            return b.emit("Log", guard(b, x))
        case 1:
            return b.emit("Reciprocal", guard(b, b.emit("Abs", x)))
        case 2:
            return b.emit("Sqrt", guard(b, x))
        case 3:
            return b.emit("Div", first, guard(b, b.emit("Abs", x)))
        case 4:
            return b.emit("Reciprocal", b.emit("Sqrt", guard(b, b.emit("Mul", x, x))))
        case 5:
            # This is the logarithm of a probability, guarded at both bounds.
            share = s.clip(b, b.emit("Sigmoid", x), b.pick(1e-7, 1e-6), b.pick(1 - 1e-6, 0.999))
            return b.emit("Log", b.emit("Div", share, b.emit("Sub", b.constant(1.0), share)))
        case _:
            return b.emit(
                "Pow", guard(b, b.emit("Abs", x)), b.constant(b.pick(0.5, 0.3, -0.5, 2.0))
            )


def bounded(b: Builder, x: Value, first: Value) -> Value:
    low = b.pick(None, 0.0, -1.0, *SMALL[:4], -100.0)
    high = b.pick(None, 1.0, *LARGE)
    return s.clip(b, x, low, high)


def function(b: Builder, x: Value, first: Value) -> Value:
    names = [
        "Relu",
        "Sigmoid",
        "Tanh",
        "Exp",
        "Softplus",
        "Softsign",
        "Elu",
        "LeakyRelu",
        "Abs",
        "Neg",
        "Floor",
        "Ceil",
        "HardSigmoid",
        "Selu",
        "Atan",
    ]
    names += ["Erf", "Sign"] if b.opset >= 9 else []
    names += ["Round"] if b.opset >= 11 else []
    names += ["HardSwish"] if b.opset >= 14 else []
    names += ["Mish"] if b.opset >= 18 else []
    names += ["Gelu"] if b.opset >= 20 else []
    names += ["Swish"] if b.opset >= 24 else []
    name = b.pick(*names)
    if name == "Exp":
        x = s.clip(b, x, None if b.chance(0.5) else -b.pick(20.0, 100.0), b.pick(80.0, 88.0, 10.0))
    return b.emit(name, x)


def arithmetic(b: Builder, x: Value, first: Value) -> Value:
    number = b.constant(b.pick(*SMALL, *LARGE, -1.0, 0.5, -2.0, 1.0, 0.0))
    op = b.pick("Add", "Mul", "Sub", "Div", "Add", "Mul")
    if op == "Div" and b.chance(0.5):
        divisor = b.constant(b.pick(3.0, 0.1, 1e-7, 1e10, -2.0))
        return b.emit("Div", x, divisor)
    if op == "Div":
        return b.emit("Div", number, guard(b, b.emit("Abs", x)))
    return b.emit(op, *((x, number) if b.chance(0.6) else (number, x)), shape=x.shape)


def combined(b: Builder, x: Value, first: Value) -> Value:
    """Combine with the first value: selections by comparison, extremes, quotients of sums."""
    match b.size(0, 3):
        case 0:
            b.since(9)
            mask = s.compare(b, b.pick("Greater", "Less"), first, b.constant(b.pick(0.0, *SMALL)))
            return s.where(b, mask, x, b.constant(b.pick(0.0, 1.0, -1e9)))
        case 1:
            return s.extremum(b, b.pick("Max", "Min"), x, first)
        case 2:
            magnitude = b.emit("Abs", first)
            return b.emit("Div", x, b.emit("Add", magnitude, b.constant(b.pick(*SMALL, 1.0))))
        case _:
            return b.emit("Mul", x, b.emit("Sigmoid", first))
