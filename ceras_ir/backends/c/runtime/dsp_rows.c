#include "dsp_widen.c"
/* Adds x . weights[r] to sums[r], for four rows of weights and @WORDS@ words of four products. A
 * word of weights holds two products of a pair of rows: a byte of the second row times 256 plus a
 * byte of the first row plus 128. The sum of words is therefore 256 times the sum of the second
 * row plus the sum of the low bytes, which UXTB16 extracts. `offset` is 128 times the sum of x.
 * Weights of 4 bits are unpacked in registers. 8 is added to both rows, and `offset` is 8 times the
 * sum of x. */
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
__attribute__((naked, noinline))
static void dsp_rows_@NAME@(int32_t *sums __attribute__((unused)),
                            const uint32_t *x __attribute__((unused)),
                            const int8_t *weights __attribute__((unused)),
                            int32_t offset __attribute__((unused)))
{
  __asm__ volatile(
    "push {r0, r3, r4-r11, lr}\n\t"
@BEGIN@    "mov r3, #@LOOPS@\n\t"
    "mov r4, #0\n\t"
    "mov r5, #0\n\t"
    "mov r6, #0\n\t"
    "mov r7, #0\n\t"
    "1:\n\t"
    ".rept @STEPS@\n\t"
    "ldrd r8, r9, [r1], #8\n\t"
@LOAD@    "smlad r4, r10, r8, r4\n\t"
    "smlad r4, r11, r9, r4\n\t"
    "uxtb16 r10, r10\n\t"
    "uxtb16 r11, r11\n\t"
    "smlad r5, r10, r8, r5\n\t"
    "smlad r5, r11, r9, r5\n\t"
    "smlad r6, r12, r8, r6\n\t"
    "smlad r6, lr, r9, r6\n\t"
    "uxtb16 r12, r12\n\t"
    "uxtb16 lr, lr\n\t"
    "smlad r7, r12, r8, r7\n\t"
    "smlad r7, lr, r9, r7\n\t"
    ".endr\n\t"
    "subs r3, #1\n\t"
    "bne 1b\n\t"
    "pop {r0, r3}\n\t"
    "ldm r0, {r8-r11}\n\t"
    "sub r4, r4, r5\n\t"
    "sub r6, r6, r7\n\t"
    "sub r5, r5, r3\n\t"
    "sub r7, r7, r3\n\t"
    "add r8, r8, r5\n\t"
    "add r9, r9, r4, asr #8\n\t"
    "add r10, r10, r7\n\t"
    "add r11, r11, r6, asr #8\n\t"
@END@    "stm r0, {r8-r11}\n\t"
    "pop {r4-r11, pc}"
    : : : "memory");
}
#else
static void dsp_rows_@NAME@(int32_t *sums, const uint32_t *x, const int8_t *weights, int32_t offset)
{
  for (int32_t pair = 0; pair < 2; ++pair) {
    int32_t both = 0, low = 0;
    for (int32_t i = 0; i < 2 * @WORDS@; ++i) {
      const uint32_t word = @WORD@;
      both = dsp_smlad(word, x[i], both);
      low = dsp_smlad(word & 0x00ff00ff, x[i], low);
    }
    sums[2 * pair] = (int32_t)((uint32_t)sums[2 * pair] + (uint32_t)low - (uint32_t)offset);
    sums[2 * pair + 1] += ((int32_t)((uint32_t)both - (uint32_t)low) >> 8)@LESS@;
  }
}
#endif
