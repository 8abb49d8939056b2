#include "dsp.c"
/* sums[8 * run + 2 * t + f] = @START@x[run] . w[run] over @WORDS@ words of two products, for four
 * columns t of x and two filters f, both interleaved by words; run < @RUNS@. In assembler, because
 * the sums need all registers of the core: 11 instructions for 16 products. */
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
__attribute__((naked, noinline))
static void dsp_products_@NAME@(int32_t *sums __attribute__((unused)),
                                const uint32_t *x __attribute__((unused)),
                                const uint32_t *w __attribute__((unused)),
                                const int32_t *bias __attribute__((unused)))
{
  __asm__ volatile(
    "add r12, r0, #32 * @RUNS@\n\t"
    "push {r0, r4-r12, lr}\n\t"
    "sub sp, #4\n\t" /* [sp] counts, [sp, #4] is the place of the sums, [sp, #40] is their end */
    "1:\n\t"
@BEGIN@
    "2:\n\t"
    ".rept @STEPS@\n\t"
    "ldrd r0, r3, [r2], #8\n\t"
    "ldrd r12, lr, [r1], #8\n\t"
    "smlad r4, r12, r0, r4\n\t"
    "smlad r5, r12, r3, r5\n\t"
    "smlad r6, lr, r0, r6\n\t"
    "smlad r7, lr, r3, r7\n\t"
    "ldrd r12, lr, [r1], #8\n\t"
    "smlad r8, r12, r0, r8\n\t"
    "smlad r9, r12, r3, r9\n\t"
    "smlad r10, lr, r0, r10\n\t"
    "smlad r11, lr, r3, r11\n\t"
    ".endr\n\t"
@AGAIN@
    "ldr r0, [sp, #4]\n\t"
    "stmia r0!, {r4-r11}\n\t"
    "ldr r3, [sp, #40]\n\t"
    "str r0, [sp, #4]\n\t"
    "cmp r0, r3\n\t"
    "bne 1b\n\t"
    "add sp, #4\n\t"
    "pop {r0, r4-r12, pc}");
}
#else
static void dsp_products_@NAME@(int32_t *sums, const uint32_t *x, const uint32_t *w,
                                const int32_t *bias)
{
  for (int32_t run = 0; run < @RUNS@; ++run, sums += 8) {
    for (int32_t i = 0; i < 8; ++i) sums[i] = bias ? bias[i & 1] : 0;
    for (int32_t k = 0; k < @WORDS@; ++k, x += 4, w += 2) {
      for (int32_t i = 0; i < 8; ++i) sums[i] = dsp_smlad(x[i >> 1], w[i & 1], sums[i]);
    }
  }
}
#endif
