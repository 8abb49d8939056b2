"""Choices about the generated C that its target lists in the help; light to import."""

from typing import Literal, TypeAlias

Weights: TypeAlias = Literal["source", "file", "incbin"]
"""Where constants are: string literals, a file that is loaded, or one that is assembled in."""

Package: TypeAlias = Literal["zephyr", "esp-idf", "cmsis-pack"]
"""What frameworks of microcontrollers take a folder as."""

EncodingChoice: TypeAlias = Literal["auto", "dense", "csr", "csr-int8", "code"]
"""How weights of float matrix products lie in flash; see the pass `encode-weights`."""

NAME_HELP = (
    "begin every function, macro, constant and file with this instead of model, so that several "
    "models link into one program"
)

ENCODING_HELP = (
    "store the weights of float matrix products in this encoding; auto compresses only as far as "
    "a microcontroller board's flash requires"
)
