/* Vectors of MODEL_F32 floats: GNU vector types, and the fused product of the processor, because
 * the rest of the model is compiled without contraction. A mask of -1 selects all lanes. */
#if MODEL_F32
#if MODEL_NEON
#include <arm_neon.h>
/* NaN is preserved, and -0 if the lower bound is 0. The upper bound must not be -0. */
#define NEON_AT_LEAST(v, low) vbslq_f32(vcltq_f32(v, low), low, v)
#define NEON_AT_MOST(v, high) vminq_f32(v, high)
#endif
typedef float model_f32v __attribute__((vector_size(4 * MODEL_F32)));
typedef float model_f32u __attribute__((vector_size(4 * MODEL_F32), aligned(4), may_alias));
typedef int32_t model_mask __attribute__((vector_size(4 * MODEL_F32)));
#define LOAD_F32(p) (*(const model_f32u *)(const void *)(p))
#define STORE_F32(p, v) (*(model_f32u *)(void *)(p) = (v))
#define ALL_F32(value) ((value) - (model_f32v){0})
#define SPLAT_F32(p) ALL_F32(*(p))
#if MODEL_F32 == 16
#define FMA(sum, x, w) ((model_f32v)__builtin_ia32_vfmaddps512_mask(x, w, sum, -1, 4))
#elif MODEL_F32 == 8
#define FMA(sum, x, w) ((model_f32v)__builtin_ia32_vfmaddps256(x, w, sum))
#elif MODEL_NEON
#define FMA(sum, x, w) \
  ((model_f32v)vfmaq_f32((float32x4_t)(sum), (float32x4_t)(x), (float32x4_t)(w)))
#endif
/* NaN is preserved. */
#define SELECT(mask, a, b) ((model_f32v)(((model_mask)(a) & (mask)) | ((model_mask)(b) & ~(mask))))
#if MODEL_F32 == 16 && defined(__clang__)
#define AT_LEAST(v, low) ((model_f32v)__builtin_ia32_maxps512(low, v, 4))
#define AT_MOST(v, high) ((model_f32v)__builtin_ia32_minps512(high, v, 4))
#elif MODEL_F32 == 16
#define AT_LEAST(v, low) ((model_f32v)__builtin_ia32_maxps512_mask(low, v, v, -1, 4))
#define AT_MOST(v, high) ((model_f32v)__builtin_ia32_minps512_mask(high, v, v, -1, 4))
#elif MODEL_F32 == 8
#define AT_LEAST(v, low) ((model_f32v)__builtin_ia32_maxps256(low, v))
#define AT_MOST(v, high) ((model_f32v)__builtin_ia32_minps256(high, v))
#elif MODEL_NEON
#define AT_LEAST(v, low) \
  ((model_f32v)NEON_AT_LEAST((float32x4_t)(v), (float32x4_t)(low)))
#define AT_MOST(v, high) ((model_f32v)NEON_AT_MOST((float32x4_t)(v), (float32x4_t)(high)))
#else
#define AT_LEAST(v, low) SELECT((v) < (low), low, v)
#define AT_MOST(v, high) SELECT((v) > (high), high, v)
#endif
#if MODEL_F32 == 16
/* The 16 bits that select the first `count` of 16 lanes. */
#define MASK_F32(count) \
  ((unsigned short)((count) >= 16 ? 0xFFFF : (count) <= 0 ? 0 : (1 << (count)) - 1))
#define LOAD_SOME_F32(p, mask) \
  ((model_f32v)__builtin_ia32_loadups512_mask(p, (model_f32v){0}, mask))
#define STORE_SOME_F32(p, v, mask) __builtin_ia32_storeups512_mask(p, v, mask)
#endif
#endif
