#include "vectors_512.c"
/* Like integer_normalize, for rows of at most 2^15 elements: the numbers c and z fit 32 bits. */
#if MODEL_LANES == 16
/* The numbers c of 16 elements. */
#define CENTRED_512 \
  _mm512_sra_epi32(_mm512_add_epi32(_mm512_mullo_epi32(@LOAD@, factor), rest), down)
#define UPPER_512(v) _mm512_srli_epi64(v, 32)
MODEL_STATIC void integer_normalize_rows_@NAME@(
    const @IN@ *restrict x, @OUT@ *restrict y, const int16_t *restrict scale,
    const int32_t *restrict bias, int32_t rows, int32_t n, int32_t centre, int32_t centred,
    int32_t up, int64_t epsilon, int32_t root_n, int32_t root_shift, int32_t shift,
    int32_t zero_point, int32_t low, int32_t high)
{
  const int64_t half = shift ? (INT64_C(1) << (shift - 1)) : 0;
  const int32_t left = (up > 0) ? up : 0;
  const __m512i factor = _mm512_set1_epi32((centred ? n : 1) << left);
  const __m128i down = _mm_cvtsi32_si128((up < 0) ? -up : 0);
  const __m128i last = _mm_cvtsi32_si128(shift);
  const __m512i least = _mm512_set1_epi64(low - zero_point);
  const __m512i most = _mm512_set1_epi64(high - zero_point);
  const __m512i point = _mm512_set1_epi32(zero_point), halves = _mm512_set1_epi64(half);
  for (int32_t r = 0; r < rows; ++r, x += n, y += n) {
    /* Differences from the mean do not depend on the zero point `centre`. */
    int32_t offset = centre * (1 << left);
    if (centred) {
      __m512i sums = _mm512_setzero_si512();
      for (int32_t k = 0; k < n; k += 16) {
        const __mmask16 lanes = MASK(n - k);
        sums = _mm512_add_epi32(sums, @LOAD@);
      }
      offset = _mm512_reduce_add_epi32(sums) * (1 << left);
    }
    const __m512i rest = _mm512_set1_epi32(((up < 0) ? (1 << (-up - 1)) : 0) - offset);
    __m512i even = _mm512_setzero_si512(), odd = even;
    for (int32_t k = 0; k < n; k += 16) {
      const __mmask16 lanes = MASK(n - k);
      const __m512i c = _mm512_maskz_mov_epi32(lanes, CENTRED_512);
      even = _mm512_add_epi64(even, _mm512_mul_epi32(c, c));
      odd = _mm512_add_epi64(odd, _mm512_mul_epi32(UPPER_512(c), UPPER_512(c)));
    }
    const uint64_t w = (uint64_t)(_mm512_reduce_add_epi64(_mm512_add_epi64(even, odd)) + epsilon);
    const int32_t log2 = 63 - __builtin_clzll(w | 1U);
    const int32_t t = (log2 - 30) >> 1;
    /* An integer of 32 bits is exact, and so is the integer part of its rounded root. */
    const __m128d square = _mm_set_sd((double)(int64_t)((t >= 0) ? (w >> (2 * t)) : (w << (-2 * t))));
    const uint32_t root = (uint32_t)_mm_cvttsd_si64(_mm_sqrt_sd(square, square));
    const __m512i m = _mm512_set1_epi64((int64_t)(((uint32_t)root_n << 17) / root));
    const int32_t to = root_shift + 5 + t;
    const __m128i by = _mm_cvtsi32_si128(to);
    const __m512i unit = _mm512_set1_epi64(INT64_C(1) << (to - 1));
    for (int32_t k = 0; k < n; k += 16) {
      const __mmask16 lanes = MASK(n - k);
      const __m512i c = CENTRED_512;
      const __m512i s = _mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(lanes, scale + k));
      const __m512i b = _mm512_maskz_loadu_epi32(lanes, bias + k);
      even = _mm512_sra_epi64(_mm512_add_epi64(_mm512_mul_epi32(c, m), unit), by);
      odd = _mm512_sra_epi64(_mm512_add_epi64(_mm512_mul_epi32(UPPER_512(c), m), unit), by);
      even = _mm512_add_epi64(_mm512_mul_epi32(even, s), halves);
      odd = _mm512_add_epi64(_mm512_mul_epi32(odd, UPPER_512(s)), halves);
      even = _mm512_add_epi64(even, _mm512_srai_epi64(_mm512_slli_epi64(b, 32), 32));
      odd = _mm512_add_epi64(odd, _mm512_srai_epi64(b, 32));
      even = _mm512_min_epi64(_mm512_max_epi64(_mm512_sra_epi64(even, last), least), most);
      odd = _mm512_min_epi64(_mm512_max_epi64(_mm512_sra_epi64(odd, last), least), most);
      const __m512i v = _mm512_add_epi32(
          _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32)), point);
      @STORE@;
    }
  }
}
#undef CENTRED_512
#undef UPPER_512
#else
#define integer_normalize_rows_@NAME@ integer_normalize_@NAME@
#endif
