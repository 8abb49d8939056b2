"""
Write the files of constants: `model.weights`, `model_weights.h`, and the start of
`model_weights.c`.

`model.weights` is a binary file of all constants that programs map, load or assemble. It has a
header of 64 bytes (magic, format version, CRC-32 of the rest, length of the file, zeros), then each
constant at a multiple of 64. The generated code contains CRC and length. It refuses the file of
another model, a damaged file and a misaligned buffer.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from ceras_ir.backends.c import constants
from ceras_ir.backends.c.constants import CONSTANT_ALIGNMENT_BYTES, ConstantPool, ReadOnlyArray
from ceras_ir.backends.c.model import PrintedModel, consistency_checks
from ceras_ir.backends.c.names import comment

WEIGHTS_MAGIC = b"CERASWTS"
FORMAT_VERSION = 1
HEADER_BYTES = 64


def offsets(constants: list[ReadOnlyArray]) -> list[int]:
    """Return the offset in bytes of each constant in the file `model.weights`, after the header."""
    result: list[int] = []
    at = HEADER_BYTES
    for constant in constants:
        result.append(at)
        at += -(-constant.nbytes // CONSTANT_ALIGNMENT_BYTES) * CONSTANT_ALIGNMENT_BYTES
    return result


def file_bytes(constants: list[ReadOnlyArray]) -> int:
    padded = (
        -(-c.nbytes // CONSTANT_ALIGNMENT_BYTES) * CONSTANT_ALIGNMENT_BYTES for c in constants
    )
    return HEADER_BYTES + sum(padded)


def _body(constants: list[ReadOnlyArray]) -> Iterator[bytes]:
    for constant in constants:
        for chunk in constant.chunks():
            yield chunk.tobytes()
        yield bytes(-constant.nbytes % CONSTANT_ALIGNMENT_BYTES)


def checksum(constants: list[ReadOnlyArray]) -> int:
    crc = 0
    for piece in _body(constants):
        crc = zlib.crc32(piece, crc)
    return crc


def write_file(constants: list[ReadOnlyArray], crc: int, stream: BinaryIO) -> None:
    header = struct.pack("<8sIIQ", WEIGHTS_MAGIC, FORMAT_VERSION, crc, file_bytes(constants))
    stream.write(header.ljust(HEADER_BYTES, b"\0"))
    for piece in _body(constants):
        stream.write(piece)


def declarations(pool: ConstantPool, crc: int) -> str:
    """
    Return the C macros of `model_weights.h` for `--weights file`: each constant is an address in
    the loaded file `model.weights`. `crc` is the checksum that the file must have.
    """
    lines = [
        f"#define MODEL_WEIGHTS_CRC 0x{crc:08X}u",
        "extern const unsigned char *model_weights;",
        "#define MODEL_WEIGHT(type, offset) "
        "((const type *)(const void *)(model_weights + (offset)))",
    ]
    places = {
        id(c): offset for c, offset in zip(pool.constants, offsets(pool.constants), strict=True)
    }
    for name, c in [*((c, c) for c in pool.constants), *pool.copies]:
        place = f"MODEL_WEIGHT({c.ctype}, {places[id(c)]})"
        lines += name.conditional(f"#define {name.name.upper()} {place}")
    return "\n".join(lines) + "\n"


LOADER = """
const unsigned char *model_weights;

int model_load_weights(const void *file, unsigned long bytes)
{
  static const unsigned char magic[] = {@MAGIC@};
  const unsigned char *p = (const unsigned char *)file;
  static const uint32_t table[16] = { /* CRC-32 of four bits */
    0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u,
    0x4DB26158u, 0x5005713Cu, 0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu,
    0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu};
  uint32_t crc = 0xFFFFFFFFu;
  unsigned long i;
  if ((uintptr_t)file % 8 != 0) return MODEL_BAD_ALIGNMENT;
  if (bytes != MODEL_WEIGHTS_BYTES) return MODEL_BAD_WEIGHTS;
  for (i = 0; i < sizeof magic; ++i)
    if (p[i] != magic[i]) return MODEL_BAD_WEIGHTS;
  for (i = @HEADER@; i < bytes; ++i) {
    crc ^= p[i];
    crc = crc >> 4 ^ table[crc & 15u];
    crc = crc >> 4 ^ table[crc & 15u];
  }
  if ((crc ^ 0xFFFFFFFFu) != MODEL_WEIGHTS_CRC) return MODEL_BAD_WEIGHTS;
  model_weights = p;
  return 0;
}
"""


def loader(constants: list[ReadOnlyArray], crc: int) -> str:
    """
    Return the C function `model_load_weights`, which checks header, length and checksum (`crc`) of
    a file `model.weights` in memory. Constants are then loaded from there.
    """
    header = struct.pack("<8sIIQ", WEIGHTS_MAGIC, FORMAT_VERSION, crc, file_bytes(constants))
    magic = ", ".join(str(b) for b in header)
    return LOADER.replace("@MAGIC@", magic).replace("@HEADER@", str(HEADER_BYTES))


INCBIN_SOURCE = """
#if !defined(__GNUC__) || !defined(__ELF__)
#error "model.weights is put into the program by GNU assembler; compile with --weights source"
#endif
/* `bytes` bytes of model.weights from `offset`, and the NUL at the end of a string. */
#define MODEL_INCLUDE(name, alignment, offset, bytes) \\
  __asm__(".pushsection .rodata\\n.balign " #alignment "\\n.globl " #name "\\n" \\
          ".type " #name ", %object\\n.size " #name ", " #bytes " + 1\\n" #name ":\\n" \\
          ".incbin \\"model.weights\\", " #offset ", " #bytes "\\n.byte 0\\n.popsection")
"""


def inclusions(constants: list[ReadOnlyArray]) -> str:
    """
    Return the statements of `model_weights.c` for `--weights incbin`, with which the assembler
    copies each constant from `model.weights` to the program.
    """
    lines = [INCBIN_SOURCE]
    for c, offset in zip(constants, offsets(constants), strict=True):
        lines += c.conditional(f"MODEL_INCLUDE({c.name}, {c.alignment}, {offset}, {c.nbytes});")
    return "\n".join(lines) + "\n"


HEAD = """\
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "constants and weights are stored little-endian: for a big-endian processor there is no code"
#endif

/* For processors that multiply unsigned by signed bytes, 128 is added to rows of 8-bit values; the
 * bias of each layer corrects it. Both settings give the same integers. */
#ifndef MODEL_UNSIGNED_ROWS
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define MODEL_UNSIGNED_ROWS 1
#else
#define MODEL_UNSIGNED_ROWS 0
#endif
#endif

/* Products of signed bytes on Arm: 3 with matrix instructions (i8mm), 2 with dot products, 1
 * without both; 0 for portable loops, selected by -DMODEL_NEON=0. */
#ifndef MODEL_NEON
#if !defined(__GNUC__) || !defined(__aarch64__) || !defined(__ARM_NEON)
#define MODEL_NEON 0
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#define MODEL_NEON 3
#elif defined(__ARM_FEATURE_DOTPROD)
#define MODEL_NEON 2
#else
#define MODEL_NEON 1
#endif
#endif

/* Lanes of the vectors of kernels; 0 for portable loops, selected by -DMODEL_LANES=0. All settings
 * give the same integers. */
#ifndef MODEL_LANES
#if defined(__GNUC__) && defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define MODEL_LANES 16
#elif defined(__GNUC__) && defined(__AVX2__)
#define MODEL_LANES 8
#else
#define MODEL_LANES 0
#endif
#endif

/* Whether bytes are multiplied without a dot-product instruction: sums of two or four products are
 * computed in 16 bits if they fit. */
#if MODEL_LANES == 8 && !defined(__AVXVNNI__) && \
  !(defined(__AVX512VNNI__) && defined(__AVX512VL__))
#define MODEL_QUADS 1
#define MODEL_ORDER(constant) (constant)
#else
#define MODEL_QUADS 0
#define MODEL_ORDER(constant) NULL
#endif

/* RISC-V vectors of any length, by the intrinsics of gcc 14 and clang 17; 0 for portable loops,
 * selected by -DMODEL_RVV=0. */
#ifndef MODEL_RVV
#if defined(__riscv_v) && defined(__riscv_v_intrinsic) && __riscv_v_intrinsic >= 12000
#define MODEL_RVV 1
#else
#define MODEL_RVV 0
#endif
#endif

/* Whether sums of integers are computed in register tiles. */
#define MODEL_TILES (MODEL_LANES || MODEL_RVV || MODEL_NEON)

/* Lanes of float vectors; 0 for portable loops. The order of float sums depends on it. */
#ifndef MODEL_F32
#if MODEL_LANES == 16
#define MODEL_F32 16
#elif MODEL_LANES == 8 && defined(__FMA__)
#define MODEL_F32 8
#elif MODEL_NEON || MODEL_RVV
#define MODEL_F32 4
#else
#define MODEL_F32 0
#endif
#endif

#if defined(__GNUC__)
#define MODEL_ALIGN(bytes) __attribute__((aligned(bytes)))
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define MODEL_ALIGN(bytes) _Alignas(bytes)
#else
#define MODEL_ALIGN(bytes)
#endif

/* Bytes that a string literal initializes, in C without the NUL at the end. */
#if defined(__cplusplus)
#define MODEL_LITERAL(count) char bytes[(count) + 1]
#elif (defined(__clang_major__) && (__clang_major__ >= 21)) || \
  (!defined(__clang_major__) && defined(__GNUC__) && (__GNUC__ >= 8))
#define MODEL_LITERAL(count) __attribute__((nonstring)) char bytes[count]
#else
#define MODEL_LITERAL(count) char bytes[count]
#endif

"""

AMX_HEAD = """\
/* Tiles of AMX, if Linux grants them to the process when it runs; 0 for vectors only, selected by
 * -DMODEL_AMX=0. Both give the same integers. */
#ifndef MODEL_AMX
#if MODEL_LANES == 16 && defined(__AMX_INT8__) && defined(__linux__) && defined(__LP64__)
#define MODEL_AMX 1
#else
#define MODEL_AMX 0
#endif
#endif

"""

LONG_STRINGS = """\
/* Compilers accept longer strings than the 4095 characters of ISO C. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Woverlength-strings"
#endif

"""


def weights_header(model: PrintedModel, crc: int) -> str:
    pool = model.pool
    if model.options.weights == "file":
        body = declarations(pool, crc)
    else:
        body = constants.declarations(pool)
    title = f"/* Constants of {comment(model.options.title)}: {model.pool.nbytes} bytes. */\n"
    amx = AMX_HEAD if "amx" in model.kernels.functions else ""
    return title + HEAD + amx + body + "\n#endif\n"


def weights_source_header(model: PrintedModel) -> str:
    """
    Return the start of `model_weights.c`: includes, and assertions that the file belongs to the
    model. The assertions also declare a symbol, which C requires if there are no constants.
    """
    title = f"/* Constants of {comment(model.options.title)}, generated by ceras_ir. */\n"
    includes = '#include "model.h"\n#include "model_weights.h"\n\n'
    return title + includes + LONG_STRINGS + consistency_checks(model, "_stored")
