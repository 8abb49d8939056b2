/* AVX-VNNI's dot product for processors that lack it, from its definition: to each of 8 sums, four
 * products of unsigned by signed bytes, without saturation. Included before generated C. */
#include <immintrin.h>
#include <stdint.h>

#define __AVXVNNI__ 1
#define _mm256_dpbusd_avx_epi32 emulated_dpbusd

static __attribute__((noinline, unused)) __m256i emulated_dpbusd(__m256i sum, __m256i x, __m256i w)
{
  union {
    __m256i vector;
    uint32_t sums[8];
    uint8_t u[32];
    int8_t s[32];
  } a = {sum}, b = {x}, c = {w};
  for (int i = 0; i < 32; ++i) a.sums[i / 4] += (uint32_t)(b.u[i] * c.s[i]);
  return a.vector;
}
