// Sums of products of pairs of 16-bit integers, in 16 lanes.
//
// All variants compute equal sums. The lanes are one, two or four vectors of the processor.
// CERAS_PLAIN uses no intrinsics.
#pragma once

#include <cstdint>
#include <cstring>

#include "lanes.h"

#if defined(CERAS_VECTORS)
#include <immintrin.h>
#endif

namespace ceras {

constexpr int PAIR = 2;

#if defined(CERAS_VECTORS) && defined(__AVX512BW__)
constexpr int PARTS = 1;
using Part = __m512i;
inline Part pair_of(int32_t pair) { return _mm512_set1_epi32(pair); }
inline Part part_at(const void* from) { return _mm512_loadu_si512(from); }
inline void put_part(void* to, Part part) { _mm512_storeu_si512(to, part); }
inline Part add_products(Part sum, Part x, Part w) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(x, w));
}
#elif defined(CERAS_VECTORS) && defined(__AVX2__)
constexpr int PARTS = 2;
using Part = __m256i;
inline Part pair_of(int32_t pair) { return _mm256_set1_epi32(pair); }
inline Part part_at(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
inline void put_part(void* to, Part part) { _mm256_storeu_si256(static_cast<__m256i*>(to), part); }
inline Part add_products(Part sum, Part x, Part w) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
}
#elif defined(CERAS_VECTORS)
constexpr int PARTS = 4;
using Part = __m128i;
inline Part pair_of(int32_t pair) { return _mm_set1_epi32(pair); }
inline Part part_at(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
inline void put_part(void* to, Part part) { _mm_storeu_si128(static_cast<__m128i*>(to), part); }
inline Part add_products(Part sum, Part x, Part w) {
  return _mm_add_epi32(sum, _mm_madd_epi16(x, w));
}
#endif

// sums[r][lane] += sum over all pairs i and their products j of x[r][i][j] weights[i][lane][j];
// rows of `x` are `step` apart. No two products of a pair may exceed 32 bits.
template <int ROWS>
inline void multiply_pairs(const int16_t* x, int64_t step, const int16_t* weights, int pairs,
                           int32_t* sums) {
#if defined(CERAS_VECTORS)
  constexpr int WIDTH = LANES / PARTS;
  Part rows[ROWS][PARTS];
  for (int r = 0; r < ROWS; ++r)
    for (int j = 0; j < PARTS; ++j) rows[r][j] = part_at(sums + r * LANES + j * WIDTH);
  for (int i = 0; i < pairs; ++i)
    for (int r = 0; r < ROWS; ++r) {
      int32_t pair;
      std::memcpy(&pair, x + r * step + i * PAIR, sizeof pair);
      for (int j = 0; j < PARTS; ++j)
        rows[r][j] = add_products(rows[r][j], pair_of(pair),
                                  part_at(weights + (i * LANES + j * WIDTH) * PAIR));
    }
  for (int r = 0; r < ROWS; ++r)
    for (int j = 0; j < PARTS; ++j) put_part(sums + r * LANES + j * WIDTH, rows[r][j]);
#else
  for (int i = 0; i < pairs; ++i) {
    for (int r = 0; r < ROWS; ++r)
      for (int lane = 0; lane < LANES; ++lane)
        for (int j = 0; j < PAIR; ++j)
          sums[r * LANES + lane] +=
              int32_t{x[r * step + i * PAIR + j]} * weights[(i * LANES + lane) * PAIR + j];
  }
#endif
}

}  // namespace ceras
