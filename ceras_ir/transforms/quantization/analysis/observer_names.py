"""What calibration may choose exponents by; apart, so that passes load without numpy."""

from typing import Literal, TypeAlias

ObserverName: TypeAlias = Literal["auto", "mse", "minmax"]

DEFAULT_OBSERVER: ObserverName = "auto"
