// The arithmetic of the lanes: sums of products, and shifts.
//
// Separate from lanes.h, because the headers of processor intrinsics take long to compile.
#pragma once

#include <cstdint>
#include <cstring>

#include "pairs.h"

namespace ceras {

#if defined(CERAS_PRODUCTS_OF_FOUR)

constexpr int TILE_ROWS = 12;

template <int ROWS>
inline void multiply_tile(const Number* x, int64_t step, const Weight* weights, int groups,
                          int32_t* sums) {
  __m512i rows[ROWS], excess = _mm512_setzero_si512();
  const __m512i added = _mm512_set1_epi8(-128);
  for (int r = 0; r < ROWS; ++r) rows[r] = _mm512_loadu_si512(sums + r * LANES);
  for (int i = 0; i < groups; ++i) {
    const __m512i w = _mm512_loadu_si512(weights + i * LANES * GROUP);
    excess = _mm512_dpbusd_epi32(excess, added, w);
    for (int r = 0; r < ROWS; ++r) {
      int32_t group;
      std::memcpy(&group, x + r * step + i * GROUP, sizeof group);
      rows[r] = _mm512_dpbusd_epi32(rows[r], _mm512_set1_epi32(group), w);
    }
  }
  for (int r = 0; r < ROWS; ++r)
    _mm512_storeu_si512(sums + r * LANES, _mm512_sub_epi32(rows[r], excess));
}

#else

#if defined(CERAS_VECTORS) && !defined(__AVX2__)
constexpr int TILE_ROWS = 2;
#else
constexpr int TILE_ROWS = 4;
#endif

template <int ROWS>
inline void multiply_tile(const Number* x, int64_t step, const Weight* weights, int groups,
                          int32_t* sums) {
  multiply_pairs<ROWS>(x, step, weights, groups, sums);
}

#endif

// sums[r][lane] += sum over all groups i and their products j of x[r][i][j] weights[i][lane][j];
// rows of `x` are `step` apart.
inline void multiply_rows(const Number* x, int64_t step, const Weight* weights, int groups,
                          int rows, int32_t* sums) {
  int r = 0;
  for (; r + TILE_ROWS <= rows; r += TILE_ROWS)
    multiply_tile<TILE_ROWS>(x + r * step, step, weights, groups, sums + r * LANES);
  for (; r < rows; ++r) multiply_tile<1>(x + r * step, step, weights, groups, sums + r * LANES);
}

// sums[r][lane] >>= right[lane], of at most 31. With STICKY, the last bit is also 1 if one of the
// bits in below[lane] that were shifted out was 1.
template <bool STICKY>
inline void shift_rows(int32_t* sums, int rows, const int32_t* right, const int32_t* below) {
#if defined(CERAS_VECTORS) && defined(__AVX2__)
  constexpr int WIDTH = 8;
  using Vector = __m256i;
  const auto at = [](const int32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const Vector*>(from));
  };
  const Vector one = _mm256_set1_epi32(1), zero = _mm256_setzero_si256();
  for (int i = 0; i < LANES; i += WIDTH) {
    const Vector by = at(right + i), mask = at(below + i);
    for (int r = 0; r < rows; ++r) {
      const Vector x = at(sums + r * LANES + i);
      Vector shifted = _mm256_srav_epi32(x, by);
      if (STICKY) {
        const Vector none = _mm256_cmpeq_epi32(_mm256_and_si256(x, mask), zero);
        shifted = _mm256_or_si256(shifted, _mm256_andnot_si256(none, one));
      }
      _mm256_storeu_si256(reinterpret_cast<Vector*>(sums + r * LANES + i), shifted);
    }
  }
#elif defined(CERAS_VECTORS)
  // Shift four values by each of the four shifts, and select one result of each.
  constexpr int WIDTH = 4;
  using Vector = __m128i;
  const auto at = [](const int32_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const Vector*>(from));
  };
  const Vector one = _mm_set1_epi32(1), zero = _mm_setzero_si128();
  for (int i = 0; i < LANES; i += WIDTH) {
    const Vector mask = at(below + i);
    const Vector by[WIDTH] = {_mm_cvtsi32_si128(right[i]), _mm_cvtsi32_si128(right[i + 1]),
                              _mm_cvtsi32_si128(right[i + 2]), _mm_cvtsi32_si128(right[i + 3])};
    for (int r = 0; r < rows; ++r) {
      const Vector x = at(sums + r * LANES + i);
      const Vector low = _mm_unpacklo_epi32(_mm_sra_epi32(x, by[0]), _mm_sra_epi32(x, by[1]));
      const Vector high = _mm_unpackhi_epi32(_mm_sra_epi32(x, by[2]), _mm_sra_epi32(x, by[3]));
      Vector shifted = _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(low),
                                                       _mm_castsi128_ps(high),
                                                       _MM_SHUFFLE(3, 0, 3, 0)));
      if (STICKY) {
        const Vector none = _mm_cmpeq_epi32(_mm_and_si128(x, mask), zero);
        shifted = _mm_or_si128(shifted, _mm_andnot_si128(none, one));
      }
      _mm_storeu_si128(reinterpret_cast<Vector*>(sums + r * LANES + i), shifted);
    }
  }
#else
  for (int r = 0; r < rows; ++r) {
    for (int lane = 0; lane < LANES; ++lane) {
      const int32_t x = sums[r * LANES + lane];
      const int32_t last = STICKY && (x & below[lane]) != 0 ? 1 : 0;
      sums[r * LANES + lane] = (x >> right[lane]) | last;
    }
  }
#endif
}

}  // namespace ceras
