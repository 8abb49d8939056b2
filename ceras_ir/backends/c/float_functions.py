"""Float functions that are more than an expression, with the interpreter's constants."""

from ceras_ir.backends.c.kernels import Kernels
from ceras_ir.backends.c.types import float_literal
from ceras_ir.interpreters import float_functions as f


def _literal(value: f.Floats | float) -> str:
    text = float_literal(float(value))
    return f"({text})" if text.startswith("-") else text


def _horner(p: str, x: str, rest: list[str], indent: int) -> str:
    return "\n".join(f"{' ' * indent}{p} = {p} * {x} + {c};" for c in rest)


def exp(kernels: Kernels) -> str:
    """`float_functions.exp`."""
    return kernels.use("exp_f32")


def exp_minus_one(kernels: Kernels) -> str:
    """`float_functions.exp_minus_one`."""
    exp(kernels)
    absolute(kernels)
    first, *rest = (_literal(float(c)) for c in f.EXP_COEFFICIENTS)
    return kernels.use(
        "exp_minus_one_f32",
        NEAR=_literal(float(f.EXP_MINUS_ONE_NEAR)),
        C0=first,
        HORNER=_horner("p", "x", rest, 4),
    )


def tanh(kernels: Kernels) -> str:
    """`float_functions.tanh`."""
    exp_minus_one(kernels)
    return kernels.use("tanh_f32")


def absolute(kernels: Kernels) -> str:
    """The function `abs`."""
    return kernels.use("abs_f32")


def log(kernels: Kernels) -> str:
    """`float_functions.log`."""
    first, *rest = (_literal(float(c)) for c in f.LOG_COEFFICIENTS)
    return kernels.use(
        "log_f32",
        C0=first,
        HORNER=_horner("p", "r", rest, 2),
        SQRT_HALF=_literal(float(f.SQRT_HALF)),
        LN2_LOW=_literal(float(f.LN2_LOW)),
        LN2_HIGH=_literal(float(f.LN2_HIGH)),
    )


def erf(kernels: Kernels) -> str:
    """`float_functions.erf`."""
    exp(kernels)
    absolute(kernels)
    first, *rest = (_literal(float(c)) for c in f.ERF_COEFFICIENTS)
    start, *tail = (_literal(float(c)) for c in f.ERFC_COEFFICIENTS)
    return kernels.use(
        "erf_f32",
        C0=first,
        HORNER=_horner("p", "s", rest, 4),
        D0=start,
        TAIL=_horner("q", "a", tail, 2),
    )


def softplus(kernels: Kernels) -> str:
    """`float_functions.softplus`."""
    exp(kernels)
    absolute(kernels)
    log(kernels)
    return kernels.use("softplus_f32")


def mish(kernels: Kernels) -> str:
    """The function `mish`."""
    exp(kernels)
    return kernels.use("mish_f32")


def gelu(kernels: Kernels) -> str:
    """The function `gelu`."""
    erf(kernels)
    return kernels.use("gelu_f32", SQRT_OF_HALF=_literal(float(f.SQRT_OF_HALF)))


def gelu_tanh(kernels: Kernels) -> str:
    """The function `gelu_tanh`."""
    tanh(kernels)
    return kernels.use("gelu_tanh_f32", SQRT_2_OVER_PI=_literal(float(f.SQRT_2_OVER_PI)))


def rounded(kernels: Kernels, name: str) -> str:
    """`floor`, `ceil` or `rint` without the C library."""
    rint = kernels.use("rint_f32")
    return rint if name == "rint" else kernels.use(f"{name}_f32")


def power(kernels: Kernels) -> str:
    """`float_functions.power`."""
    exp(kernels)
    absolute(kernels)
    log(kernels)
    kernels.use("rint_f32")
    return kernels.use("power_f32")
