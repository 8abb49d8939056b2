#include "vectors_i8.c"
/* The lower 8 lanes of a vector, for few outputs: some processors execute two such products in the
 * time of a product of complete vectors. The upper lanes of the complete vector are 0. */
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
