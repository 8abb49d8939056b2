"""
Define which arrays hold samples of an input.

For an input with a first extent of 1 the array is [N, *shape[1:]]; otherwise [N, *shape]. An array
with exactly the shape of the input is a single sample.
"""

from collections.abc import Sequence

from ceras_ir.support.diagnostics import InputError


class SampleShapeError(InputError):
    """Samples of an input have another shape than the input. The error names the file `path`."""

    def __init__(
        self,
        name: str,
        given: Sequence[int],
        expected: str,
        remedy: str,
        other_remedy: str,
        types: str,
        path: str,
    ):
        """
        Create the error of the array `name` of shape `given`. `expected` is the text of the
        expected shape. The message ends with `remedy`, code that gives the array this shape, or
        with `other_remedy` if there is none, and with `types`, a remedy of the type.
        """
        self.name, self.given, self.remedy = name, tuple(given), remedy + types
        self.has_code = bool(remedy)
        super().__init__(
            f"array '{name}' has shape {list(given)}, expected {expected}"
            f"{remedy or other_remedy}{types}",
            path,
        )


def sample_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """
    Return the shape of a single sample in an array for an input of `shape`: without a first axis of
    extent 1. (1, 28, 28) and (28, 28) -> (28, 28).
    """
    return tuple(shape[1:] if shape and shape[0] == 1 else shape)


def array_shape(shape: Sequence[int | str]) -> str:
    """
    Return, as text, the shape of an array with `N` samples for an input of `shape`, of extents or
    symbols: `[N, 28, 28]` for (1, 28, 28).
    """
    sample = shape[1:] if shape and shape[0] == 1 else shape
    return f"[{', '.join(['N', *map(str, sample)])}]"


def fits(given: Sequence[int], shape: Sequence[int]) -> bool:
    """
    Return whether an array of the shape `given` holds samples, along axis 0, of an input of
    `shape`.
    """
    return tuple(given[1:]) == sample_shape(shape) and len(given) > 0
