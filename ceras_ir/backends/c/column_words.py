"""
Arrange the input of depthwise convolutions in 32-bit words. A word has elements from several input
rows of the same column and channel.

A word holds four bytes or two values of 16 bits. An instruction multiplies them by weights and adds
the products to the sum of the channel. The weights are [column][rows / 4][channel][4] bytes for
both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ceras_ir.backends.c.integer_layer import Epilogue

STEP = 4
"""The maximum number of rows in a word: the bytes of a word of weights."""

WIDE_BLOCK = 32


@dataclass(frozen=True)
class Words:
    """
    The layout of the input of a depthwise convolution as 32-bit words in vectors of `bits` bits,
    for `block` channels at a time. A word has the elements of adjacent input rows in the same
    column and channel.
    """

    bits: int
    """The bits of a vector: 256 or 512."""
    block: int
    """
    The number of channels that are computed at a time. The last block starts earlier if it would be
    incomplete.
    """
    input_rows: int
    """The number of input rows that the windows of `result_rows` adjacent output rows cover."""
    result_rows: int
    are_pairs: bool
    """Whether a word holds two values of 16 bits; otherwise four bytes."""

    @classmethod
    def narrow(cls, stored: str, channels: int, rows: int) -> "Words | None":
        """
        Return the layout for vectors of 256 bits, which computes a row of results at a time, or
        `None` if the channels do not fill a vector. `stored` is the C type of the input, and `rows`
        is the height of a window.
        """
        if stored != "int16_t" and channels >= 32:
            return cls(256, 32, rows, 1, are_pairs=False)
        return cls(256, 16, rows, 1, are_pairs=True) if channels >= 16 else None

    @classmethod
    def wide(cls, stored: str, channels: int, rows: int, *, are_stacked: bool) -> "Words | None":
        """
        Return the layout for vectors of 512 bits, or `None` if the channels do not fill a block.

        With `are_stacked`, windows of two adjacent output rows share all input rows except one. Two
        rows of results are then computed together if windows have fewer than four rows: each input
        column is interleaved a single time, and the weights for the lower row are moved down by a
        row.
        """
        if channels < WIDE_BLOCK:
            return None
        taken = 2 if are_stacked and rows < STEP else 1
        return cls(512, WIDE_BLOCK, rows + taken - 1, taken, are_pairs=stored == "int16_t")

    @property
    def groups(self) -> int:
        return -(-self.input_rows // (2 if self.are_pairs else STEP))

    @property
    def vectors(self) -> range:
        """The indices of the vectors that hold the sums of a block of channels."""
        return range(self.block // (self.bits // 32))

    @property
    def parts(self) -> list[str]:
        """
        The suffixes of the C variables that hold the words of a column. Rows that do not fit the
        first word are in variables of further groups.
        """
        return [f"{g}{j}" if g else f"{j}" for g in range(self.groups) for j in self.vectors]

    @property
    def dot(self) -> str:
        return f"DOT_WORDS_{self.bits}" if self.are_pairs else f"DOT_{self.bits}"

    def call(self, function: str, *arguments: object) -> str:
        return f"_mm{self.bits}_{function}({', '.join(map(str, arguments))})"

    def loads(self, name: str, at: str) -> list[str]:
        """
        Return C statements that load a block of words or sums from the address `at` into vectors
        called `name` with suffix 0, 1, ...
        """
        if self.bits == 512:
            texts = [f"LOAD_HALF({at}, {j})" for j in self.vectors]
        else:
            places = (f"{at}{f' + {16 * j}' if j else ''}" for j in self.vectors)
            texts = [f"LOAD_PAIR({place}, {2 * self.block})" for place in places]
        return [
            f"const model_{self.bits} {name}{j} = {text};"
            for j, text in zip(self.vectors, texts, strict=True)
        ]

    def weights(self, name: str, places: Sequence[str]) -> list[str]:
        """
        Return C statements that load the weights of a column from the addresses `places`, for four
        rows each. If two rows of results are computed, variables with the suffix `below` contain
        the weights for the lower row.
        """
        lines: list[str] = []
        for i, at in enumerate(places):
            lines += self.loads(f"{name}_{i}_", at)
        for q in range(self.result_rows):
            ending = "below" * q
            for g, j in ((g, j) for g in range(self.groups) for j in self.vectors):
                text = f"{name}_{g // 2 if self.are_pairs else g}_{j}"
                # A window with a lower window has all rows in a single word.
                text = self.call("slli_epi32", text, 8 * q) if q else text
                if self.are_pairs:
                    half = "UPPER_I8" if g % 2 else "LOWER_I8"
                    text = f"{half}{'_512' if self.bits == 512 else ''}({text})"
                part = self.parts[g * len(self.vectors) + j]
                lines.append(f"const model_{self.bits} {name}{part}{ending} = {text};")
        return lines

    def interleaving(self, stored: str) -> tuple[str, str]:
        """
        Return the name and the text of a C function that interleaves rows of the input, of C type
        `stored`, to the words of a column.
        """
        if self.are_pairs:
            return _pairs(stored, self)
        return _bytes(stored, self, is_moved=stored == "int8_t")

    def residual(self, stored: str) -> tuple[str, str]:
        """
        Return the name and the text of a C function that moves each element of a residual, of C
        type `stored`, to the most significant bits of a word. An arithmetic right shift then
        restores the value.
        """
        single = Words(self.bits, self.block, 1, 1, self.are_pairs)
        return _pairs(stored, single) if self.are_pairs else _bytes(stored, single, is_moved=False)

    def stores(self, e: Epilogue, row: int) -> list[str]:
        """
        Return C statements that narrow, clamp and store the sums of a block. `e` is the output
        stage, and `row` is the distance between two rows of results in elements.
        """
        return _wide_stores(self, e, row) if self.bits == 512 else _narrow_stores(self, e)


def _clamps(words: Words, e: Epilogue, name: str, bits: int) -> list[str]:
    lines: list[str] = []
    kind = "epu8" if bits == 8 and e.lowest == 0 else f"epi{bits}"
    for bound, function, is_used in ((e.low, "max", e.has_low), (e.high, "min", e.has_high)):
        if is_used:
            # For an unsigned byte, the signed char with the same bits.
            number = bound - 256 if bits == 8 and bound > 127 else bound
            bounds = words.call(f"set1_epi{bits}", number)
            lines.append(f"  {name} = {words.call(f'{function}_{kind}', name, bounds)};")
    return lines


def _bytes_of(e: Epilogue) -> str:
    return "packus_epi16" if e.lowest == 0 else "packs_epi16"


def _narrow_stores(words: Words, e: Epilogue) -> list[str]:
    sums = [f"s{i}" for i in words.vectors]
    lists = ", ".join(sums)
    ways = {"lower": f"LOWER_16({lists})", "upper": f"UPPER_16({lists})"}
    bits = e.bits
    if words.are_pairs:
        ways, bits = {"whole": words.call("packs_epi32", *sums)}, 16
    elif bits == 8:
        halves = (words.call("packs_epi32", *pair) for pair in (sums[:2], sums[2:]))
        ways = {"whole": words.call(_bytes_of(e), *halves)}
    lines: list[str] = []
    for i, (name, text) in enumerate(ways.items()):
        lines += [f"  model_256 {name} = {text};", *_clamps(words, e, name, bits)]
        to = f"to{' + 16' if i else ''}"
        if bits > e.bits:
            lines.append(f"  STORE_PACKED_256({to}, {name}, _mm_{_bytes_of(e)});")
        else:
            lines.append(f"  STORE_256({to}, {name});")
    return lines


def _wide_stores(words: Words, e: Epilogue, row: int) -> list[str]:
    """
    Return the statements of `Words.stores` for vectors of 512 bits. 8-bit results of two rows are
    packed into a single vector.
    """
    packed = [
        words.call("packs_epi32", *(f"s{i}{'below' * q}" for i in words.vectors))
        for q in range(words.result_rows)
    ]
    places = ["to", f"to + {row}"]
    if e.bits == 8:
        both = words.call(_bytes_of(e), packed[0], packed[-1])
        lines = [f"  model_512 whole = {both};", *_clamps(words, e, "whole", 8)]
        stores = ["STORE_EVEN(to, whole);", f"STORE_ODD({places[1]}, whole);"]
        return lines + [f"  {store}" for store in stores[: words.result_rows]]
    lines: list[str] = []
    for q, text in enumerate(packed):
        name = f"whole{'below' * q}"
        lines += [f"  model_512 {name} = {text};", *_clamps(words, e, name, 16)]
        lines.append(f"  STORE_512({places[q]}, {name});")
    return lines


def _function(name: str, title: str, stored: str, words: Words, body: list[str]) -> tuple[str, str]:
    if words.bits == 512:
        name += "_512"
    inputs = ", ".join(f"const {stored} *r{k}" for k in range(words.input_rows))
    outputs = ", ".join(f"model_{words.bits} *v{part}" for part in words.parts)
    head = f"/* {title} */\nMODEL_INLINE void {name}({inputs}, int32_t at, {outputs})"
    return name, "\n".join([head, "{", *body, "}", ""])


def _bytes(stored: str, words: Words, *, is_moved: bool) -> tuple[str, str]:
    """
    Return the name and the text of a C function that interleaves the bytes of four rows to words,
    for 32 channels. With `is_moved`, 128 is added to each byte. Missing rows are repeated, because
    their weights are zero.
    """
    rows = words.input_rows
    name = f"words_{stored}_{rows}" + ("_moved" if is_moved else "")
    flip = "_mm256_xor_si256({}, _mm256_set1_epi8(-128))" if is_moved else "{}"
    lines = [
        f"  const model_256 a{k} = {flip.format(f'LOAD_256(r{k} + at)')};" for k in range(rows)
    ]
    for g in range(words.groups):
        first, last = STEP * g, min(STEP * (g + 1), rows) - 1
        a = [f"a{min(first + k, last)}" for k in range(STEP)]
        v = words.parts[g * len(words.vectors) :]
        if words.bits == 512:
            pairs = (
                f"JOINED({a[k]}, {a[k + 1]})" if first + k < last else f"ALONE({a[k]})"
                for k in (0, 2)
            )
            names = [f"b{first + k}" for k in (0, 2)]
            lines += [
                f"  const model_512 {n} = {pair};" for n, pair in zip(names, pairs, strict=True)
            ]
            both = ", ".join(names)
            lines.append(f"  *v{v[0]} = WORDS_512({both}, 0), *v{v[1]} = WORDS_512({both}, 1);")
            continue
        for k in (0, 2):
            lower, upper = (f"_mm256_unpack{n}_epi8({a[k]}, {a[k + 1]})" for n in ("lo", "hi"))
            lines.append(f"  const model_256 l{first + k} = {lower}, h{first + k} = {upper};")
        for half, (low, high) in zip("lh", ((v[0], v[1]), (v[2], v[3])), strict=True):
            both = f"{half}{first}, {half}{first + 2}"
            lower, upper = (f"_mm256_unpack{n}_epi16({both})" for n in ("lo", "hi"))
            lines.append(f"  *v{low} = {lower}, *v{high} = {upper};")
    title = f"Words of a byte from each of {rows} rows{', moved by 128' if is_moved else ''}."
    return _function(name, title, stored, words, lines)


def _pairs(stored: str, words: Words) -> tuple[str, str]:
    rows, bits = words.input_rows, words.bits
    load = {
        "int16_t": f"LOAD_{bits}(r{{k}} + at)",
        "int8_t": "_mm256_cvtepi8_epi16(HALF_256(r{k} + at))",
        "uint8_t": "_mm256_cvtepu8_epi16(HALF_256(r{k} + at))",
    }[stored]
    lines = [f"  const model_{bits} a{k} = {load.format(k=k)};" for k in range(rows)]
    for g in range(words.groups):
        low, high = words.parts[2 * g : 2 * g + 2]
        pair = f"a{2 * g}", f"a{min(2 * g + 1, rows - 1)}"
        lower, upper = (words.call(f"unpack{half}_epi16", *pair) for half in ("lo", "hi"))
        lines.append(f"  *v{low} = {lower}, *v{high} = {upper};")
    title = f"Words of 16 bits from each of two of {rows} rows."
    return _function(f"pairs_{stored}_{rows}", title, stored, words, lines)
