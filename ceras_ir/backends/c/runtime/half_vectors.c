#include "vectors_i8.c"
/* The lower 8 lanes of a vector alone, for outputs that need no more: some processors do two such
 * products in the time of a whole one. What is above them is 0 once they are a whole vector. */
#if MODEL_LANES == 16
#include <immintrin.h>
typedef int32_t model_i32h __attribute__((vector_size(32)));
typedef int32_t model_i32hu __attribute__((vector_size(32), aligned(1), may_alias));
#define HALF_LOAD_I32(p) (*(const model_i32hu *)(const void *)(p))
#define HALF_LOAD_BYTES(p) HALF_LOAD_I32(p)
#define HALF_LOAD_WORDS(p) \
  ((model_i32h)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(p))))
#define LOWER_HALF(v) _mm512_castsi512_si256((__m512i)(v))
#define HALF_DOT(sum, x, w) \
  ((model_i32h)_mm256_dpbusd_epi32((__m256i)(sum), LOWER_HALF(x), (__m256i)(w)))
#define HALF_DOT_WORDS(sum, x, w) \
  ((model_i32h)_mm256_dpwssd_epi32((__m256i)(sum), LOWER_HALF(x), (__m256i)(w)))
#define WHOLE(v) ((model_i32v)_mm512_zextsi256_si512((__m256i)(v)))
#endif
