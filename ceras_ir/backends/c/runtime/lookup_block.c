#include "channel_tables.c"
/* Lookups in tables of channels, of 16 rows of 64 channels. If they have few tables, each table fills
 * its lanes. Otherwise the rows are transposed, so that a vector has 16 elements of each of four
 * channels. */
#if MODEL_LOOKUP
/* The order of words of 64 bits in which interleaved bytes of two vectors have the order of rows. */
#define HALVES_FIRST _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7)

/* Exchanges rows and columns of 16 by 16 bytes in each 128 bits of 16 vectors. */
MODEL_INLINE void turn_bytes(model_bytes *v)
{
  /* In each round, vectors of both halves are interleaved by bytes. */
  MODEL_IN_REGISTERS
  for (int32_t round = 0; round < 4; ++round) {
    model_bytes turned[16];
    MODEL_IN_REGISTERS
    for (int32_t k = 0; k < 8; ++k) {
      turned[2 * k] = (model_bytes)_mm512_unpacklo_epi8((__m512i)v[k], (__m512i)v[k + 8]);
      turned[2 * k + 1] = (model_bytes)_mm512_unpackhi_epi8((__m512i)v[k], (__m512i)v[k + 8]);
    }
    MODEL_IN_REGISTERS
    for (int32_t k = 0; k < 16; ++k) v[k] = turned[k];
  }
}

/* Up to this number of tables, lanes are faster than transposition. */
enum { FEW_TABLES = 5 };

/* Up to 64 channels of up to 16 rows: elements `at` to `at + taken - 1` of `rows` rows of `width`
 * elements; the index of the entry for input 0 of each channel; the number of different
 * indices, and, if they are few, the lanes of each. */
struct lookup_block {
  int32_t width, at, taken, rows, first[64], count, tables[FEW_TABLES];
  uint64_t lanes[FEW_TABLES];
};

/* Returns the elements of a row. Several positions of few channels are a row. */
MODEL_INLINE int32_t lookup_width(int32_t channels)
{
  return channels < 64 ? 64 / channels * channels : channels;
}

MODEL_INLINE void begin_block(struct lookup_block *b, int32_t width, int32_t at,
                              const int32_t *first, int32_t channels)
{
  b->width = width, b->at = at, b->taken = width - at < 64 ? width - at : 64;
  channel_entries(b->first, first, at, channels);
  b->count = collect_tables(b->first, FEW_TABLES, b->tables, b->lanes);
}

/* Looks up these lanes of vectors in a table, which remains in registers. A table has two parts for
 * negative and two for other indices. */
MODEL_INLINE void look_up_table(model_bytes *negative, model_bytes *other, const void *table,
                                int32_t first, uint64_t lanes, int32_t vectors)
{
  model_bytes part[4];
  MODEL_IN_REGISTERS
  for (int32_t i = 0; i < 4; ++i)
    part[i] = ((const model_bytes *)(const void *)((const char *)table + first - 128))[i];
  MODEL_IN_REGISTERS
  for (int32_t k = 0; k < vectors; ++k) {
    negative[k] = look_up_in(negative[k], part[0], part[1], lanes);
    other[k] = look_up_in(other[k], part[2], part[3], lanes);
  }
}

/* Looks up 16 vectors from `load_rows`, and restores the rows. */
MODEL_INLINE void look_up_rows(model_bytes *v, const void *table, const struct lookup_block *b)
{
  enum { TOGETHER = 8 };
  const int32_t is_turned = b->count > FEW_TABLES;
  for (int32_t k = 0; k < 16; k += TOGETHER) {
    model_bytes negative[TOGETHER], other[TOGETHER];
    MODEL_IN_REGISTERS
    for (int32_t j = 0; j < TOGETHER; ++j) negative[j] = other[j] = v[k + j];
    if (is_turned) {
      MODEL_IN_REGISTERS
      for (int32_t j = 0; j < TOGETHER; ++j)
        MODEL_IN_REGISTERS
        for (int32_t i = 0; i < 4; ++i)
          look_up_table(negative + j, other + j, table, b->first[16 * i + k + j],
                        (uint64_t)0xFFFF << (16 * i), 1);
    } else {
      for (int32_t i = 0; i < b->count; ++i)
        look_up_table(negative, other, table, b->tables[i], b->lanes[i], TOGETHER);
    }
    MODEL_IN_REGISTERS
    for (int32_t j = 0; j < TOGETHER; ++j) {
      const uint64_t below = __builtin_ia32_cvtb2mask512(v[k + j]);
      v[k + j] = (model_bytes)_mm512_mask_mov_epi8((__m512i)other[j], below, (__m512i)negative[j]);
    }
  }
  if (is_turned) turn_bytes(v);
}

MODEL_INLINE uint64_t block_lanes(const struct lookup_block *b)
{
  return ~(uint64_t)0 >> (64 - b->taken);
}

/* Loads the rows, and transposes them for many tables. Missing rows repeat the last. */
MODEL_INLINE void load_rows(model_bytes *v, const int8_t *x, const struct lookup_block *b)
{
  for (int32_t k = 0; k < 16; ++k) {
    const int32_t row = k < b->rows ? k : b->rows - 1;
    v[k] = (model_bytes)_mm512_maskz_loadu_epi8(block_lanes(b), x + row * b->width + b->at);
  }
  if (b->count > FEW_TABLES) turn_bytes(v);
}

MODEL_INLINE void store_bytes(int8_t *y, const model_bytes *v, const struct lookup_block *b)
{
  for (int32_t k = 0; k < b->rows; ++k)
    _mm512_mask_storeu_epi8(y + k * b->width + b->at, block_lanes(b), (__m512i)v[k]);
}

/* Stores words of 16 bits, of which `lower` and `upper` have the bytes. */
MODEL_INLINE void store_words(int16_t *y, const model_bytes *lower, const model_bytes *upper,
                              const struct lookup_block *b)
{
  for (int32_t k = 0; k < b->rows; ++k) {
    int16_t *to = y + k * b->width + b->at;
    const __m512i low = _mm512_permutexvar_epi64(HALVES_FIRST, (__m512i)lower[k]);
    const __m512i high = _mm512_permutexvar_epi64(HALVES_FIRST, (__m512i)upper[k]);
    _mm512_mask_storeu_epi16(to, (__mmask32)block_lanes(b), _mm512_unpacklo_epi8(low, high));
    _mm512_mask_storeu_epi16(to + 32, (__mmask32)(block_lanes(b) >> 32),
                             _mm512_unpackhi_epi8(low, high));
  }
}
#undef HALVES_FIRST
#endif
