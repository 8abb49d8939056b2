/* Sums of products in vectors of 16: GNU vector types, and instructions of the processor for the
 * dot product, for widening and for narrowing. A mask of -1 selects all lanes. */
#if MODEL_LANES == 16
typedef int32_t model_i32v __attribute__((vector_size(64)));
typedef int32_t model_i32u __attribute__((vector_size(64), aligned(1), may_alias));
typedef char model_i8v __attribute__((vector_size(16)));
typedef unsigned char model_u8v __attribute__((vector_size(16)));
typedef char model_i8u __attribute__((vector_size(16), aligned(1), may_alias));
typedef int32_t model_word __attribute__((aligned(1), may_alias));
#define LOAD_I32(p) (*(const model_i32u *)(const void *)(p))
#define STORE_I32(p, v) (*(model_i32u *)(void *)(p) = (v))
#define LOAD_BYTES(p) LOAD_I32(p)
#define ALL_I32(value) ((model_i32v){0} + (value))
/* Four bytes of the input, or two words, repeated in all lanes. */
#define SPLAT(p) ALL_I32(*(const model_word *)(const void *)(p))
#define SPLAT_MOVED(p) ALL_I32((int32_t)((uint32_t)*(const model_word *)(const void *)(p) ^ 0x80808080u))
/* The same with the flipped bits in a register: compilers that know the value would flip each word
 * before they repeat it, in units that products need. */
#define SPLAT_FLIPPED(p) (SPLAT(p) ^ flip)
#define HOLD_FLIP model_i32v flip = ALL_I32((int32_t)0x80808080u); __asm__("" : "+v"(flip))
/* The 16 bits that select the first `count` of 16 lanes. */
#define MASK(count) ((unsigned short)((count) >= 16 ? 0xFFFF : (count) <= 0 ? 0 : (1 << (count)) - 1))
#define LOAD_I8(p) (*(const model_i8u *)(const void *)(p))
/* Numbers of 16 bits. */
typedef int16_t model_i16v __attribute__((vector_size(32)));
typedef int16_t model_i16u __attribute__((vector_size(32), aligned(1), may_alias));
/* 32 bytes, which are widened to 16 bits each. */
typedef char model_i8wu __attribute__((vector_size(32), aligned(1), may_alias));
typedef int16_t model_i16w __attribute__((vector_size(64)));
#define LOAD_I16(p) (*(const model_i16u *)(const void *)(p))
#if defined(__clang__)
#define DOT_WORDS(sum, x, w) ((model_i32v)__builtin_ia32_vpdpwssd512(sum, x, w))
#define LOAD_WORDS(p) \
  ((model_i32v)__builtin_convertvector(*(const model_i8wu *)(const void *)(p), model_i16w))
#define WIDEN_I16(v) __builtin_convertvector(v, model_i32v)
#define MODEL_MASKED_I16(p) ((const model_i16v *)(const void *)(p))
#else
#define DOT_WORDS(sum, x, w) ((model_i32v)__builtin_ia32_vpdpwssd_v16si(sum, x, w))
#define LOAD_WORDS(p) \
  ((model_i32v)__builtin_ia32_pmovsxbw512_mask(*(const model_i8wu *)(const void *)(p), \
                                               (model_i16w){0}, -1))
#define WIDEN_I16(v) ((model_i32v)__builtin_ia32_pmovsxwd512_mask(v, (model_i32v){0}, -1))
#define MODEL_MASKED_I16(p) ((const short *)(const void *)(p))
#endif
#define LOAD_SOME_I16(p, mask) \
  ((model_i16v)__builtin_ia32_loaddquhi256_mask(MODEL_MASKED_I16(p), (model_i16v){0}, mask))
#if defined(__clang__)
#define DOT(sum, x, w) ((model_i32v)__builtin_ia32_vpdpbusd512(sum, x, w))
#define WIDEN(v) __builtin_convertvector(v, model_i32v)
#define WIDEN_U8(v) __builtin_convertvector((model_u8v)(v), model_i32v)
#define MAX_I32(a, b) __builtin_elementwise_max(a, b)
#define MIN_I32(a, b) __builtin_elementwise_min(a, b)
#define MODEL_MASKED(p) ((const model_i8v *)(const void *)(p))
#else
#define DOT(sum, x, w) ((model_i32v)__builtin_ia32_vpdpbusd_v16si(sum, x, w))
#define WIDEN(v) ((model_i32v)__builtin_ia32_pmovsxbd512_mask(v, (model_i32v){0}, -1))
#define WIDEN_U8(v) ((model_i32v)__builtin_ia32_pmovzxbd512_mask(v, (model_i32v){0}, -1))
#define MAX_I32(a, b) ((model_i32v)__builtin_ia32_pmaxsd512_mask(a, b, a, -1))
#define MIN_I32(a, b) ((model_i32v)__builtin_ia32_pminsd512_mask(a, b, a, -1))
#define MODEL_MASKED(p) ((const char *)(p))
#endif
#define LOAD_SOME_I8(p, mask) \
  ((model_i8v)__builtin_ia32_loaddquqi128_mask(MODEL_MASKED(p), (model_i8v){0}, mask))
/* (sum * multiplier + after) >> shift, with products of 32 bits, or of 64. */
#define SCALE_32(v, m, after, shift) (((v) * (m) + (after)) >> (shift))
typedef long long model_i64v __attribute__((vector_size(64)));
#define SCALE_64(v, m, after, shift) \
  ((model_i32v)((SCALED(v, m, after, shift) & 0xFFFFFFFF) | \
                SCALED((model_i64v)(v) >> 32, (model_i64v)(m) >> 32, after, shift) << 32))
#if defined(__clang__)
#define SCALED(v, m, after, shift) \
  (((model_i64v)__builtin_ia32_pmuldq512((model_i32v)(v), (model_i32v)(m)) + (after)) >> (shift))
#else
#define SCALED(v, m, after, shift) \
  (((model_i64v)__builtin_ia32_pmuldq512_mask((model_i32v)(v), (model_i32v)(m), \
                                              (model_i64v){0}, -1) + (after)) >> (shift))
#endif
#define CLAMP_I32(v, low, high) MIN_I32(MAX_I32(v, low), high)
/* Saturates sums to 8 bits. */
#define STORE_I8(p, v, mask) \
  __builtin_ia32_pmovsdb512mem_mask((model_i8v *)(void *)(p), v, mask)
#define STORE_U8(p, v, mask) \
  __builtin_ia32_pmovusdb512mem_mask((model_i8v *)(void *)(p), MAX_I32(v, (model_i32v){0}), mask)
/* Saturates sums to 16 bits. */
#define STORE_I16(p, v, mask) \
  __builtin_ia32_pmovsdw512mem_mask((model_i16v *)(void *)(p), v, mask)
#endif
