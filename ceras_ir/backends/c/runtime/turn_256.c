#include "vectors_f32.c"
/* The sums of 8 rows of n floats, each in the order of elements: lane j adds row j, of which 8 columns
 * at a time are transposed. If `squared`, the squares of the differences from `means` are added. */
#if MODEL_F32 == 8
#include <immintrin.h>
MODEL_INLINE void turn_256(__m256 *v)
{
  __m256 t[8];
  MODEL_IN_REGISTERS
  for (int32_t j = 0; j < 8; j += 2) {
    t[j] = _mm256_unpacklo_ps(v[j], v[j + 1]);
    t[j + 1] = _mm256_unpackhi_ps(v[j], v[j + 1]);
  }
  /* Half h of v[4 * g + c] has column 4 * h + c of rows 4 * g to 4 * g + 3. */
  MODEL_IN_REGISTERS
  for (int32_t j = 0; j < 8; j += 4) {
    v[j] = _mm256_shuffle_ps(t[j], t[j + 2], 0x44);
    v[j + 1] = _mm256_shuffle_ps(t[j], t[j + 2], 0xEE);
    v[j + 2] = _mm256_shuffle_ps(t[j + 1], t[j + 3], 0x44);
    v[j + 3] = _mm256_shuffle_ps(t[j + 1], t[j + 3], 0xEE);
  }
  MODEL_IN_REGISTERS
  for (int32_t c = 0; c < 4; ++c) {
    t[c] = _mm256_permute2f128_ps(v[c], v[c + 4], 0x20);
    v[c + 4] = _mm256_permute2f128_ps(v[c], v[c + 4], 0x31);
    v[c] = t[c];
  }
}

MODEL_TILE void row_sums_256(const float *const *from, int32_t n, const float *means,
                             int32_t squared, float *sums)
{
  /* The addition of -0 leaves the bits of an element. */
  __m256 sum = _mm256_set1_ps(-0.0f), v[8];
  int32_t k = 0;
  for (; k + 8 <= n; k += 8) {
    MODEL_IN_REGISTERS
    for (int32_t j = 0; j < 8; ++j) {
      v[j] = _mm256_loadu_ps(from[j] + k);
      if (squared) {
        v[j] = _mm256_sub_ps(v[j], _mm256_set1_ps(means[j]));
        v[j] = _mm256_mul_ps(v[j], v[j]);
      }
    }
    turn_256(v);
    MODEL_IN_REGISTERS
    for (int32_t j = 0; j < 8; ++j) {
      sum = _mm256_add_ps(sum, v[j]);
    }
  }
  _mm256_storeu_ps(sums, sum);
  for (; k < n; ++k) {
    for (int32_t j = 0; j < 8; ++j) {
      const float d = squared ? from[j][k] - means[j] : from[j][k];
      sums[j] += squared ? d * d : d;
    }
  }
}
#endif
