/* Helium, the vectors of Arm's M profile (MVE). Other processors run the same in plain C. */
#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__)
#define MODEL_HELIUM 1
/* Inlined loops would load constants before the loops of a layer, and spill them. */
#define HELIUM_CALL __attribute__((noinline))
#include <arm_mve.h>
#else
#define MODEL_HELIUM 0
#define HELIUM_CALL
#endif
/* Copies, or fills with a word of four bytes; the last vector is cut by tail predication. */
static inline void helium_copy(void *to, const void *from, int32_t bytes)
{
#if MODEL_HELIUM
  __asm__ volatile(
    "wlstp.8 lr, %2, 1f\n\t"
    "2:\n\t"
    "vldrb.8 q0, [%1], #16\n\t"
    "vstrb.8 q0, [%0], #16\n\t"
    "letp lr, 2b\n\t"
    "1:"
    : "+r"(to), "+r"(from) : "r"(bytes) : "q0", "lr", "memory");
#else
  memcpy(to, from, (size_t)bytes);
#endif
}
static inline void helium_fill(int8_t *to, uint32_t word, int32_t bytes)
{
#if MODEL_HELIUM
  __asm__ volatile(
    "vdup.32 q0, %1\n\t"
    "wlstp.8 lr, %2, 1f\n\t"
    "2:\n\t"
    "vstrb.8 q0, [%0], #16\n\t"
    "letp lr, 2b\n\t"
    "1:"
    : "+r"(to) : "r"(word), "r"(bytes) : "q0", "lr", "memory");
#else
  for (int32_t i = 0; i < bytes; ++i) to[i] = (int8_t)(uint8_t)(word >> i % 4 * 8 & 0xff);
#endif
}
/* The channel at index `i` of 16 sums: narrowing 4 vectors in this order gives bytes in order. */
static inline int32_t helium_channel(int32_t i) { return 4 * (i & 3) + (i >> 1 & 2) + (i >> 3); }
