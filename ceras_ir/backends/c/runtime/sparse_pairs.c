#include "dsp.c"
/* Computes a filter at pairs of positions. `planes` has words of an input and, 23 bits up, the
 * input of the second position. Weights are 9 bits up, so that each half of a 64-bit product
 * belongs to a position. If the lower half is negative, the upper half is one too small. */
static void DSP_LOOP sparse_pairs_@NAME@(const int32_t *restrict planes,
                                         struct sparse_entry_i32 *restrict entries, int32_t n,
                                         int32_t start, int32_t shift, @ELEMENT@ *restrict y)
{
  (void)shift;
  int32_t count = @COUNT@;
  while (count < n) count += @COUNT@;
  for (; n < count; ++n) entries[n].at = 0, entries[n].w = 0;
  const struct sparse_entry_i32 *const end = entries + n;
  for (int32_t r = 0; r < @ROWS@; ++r, planes += @PITCH@, y += @ROW@) {
    const int32_t *x = planes;
    @ELEMENT@ *to = y;
    for (int32_t left = @COLUMNS@;;) {
#if defined(__ARM_FEATURE_DSP) && defined(__OPTIMIZE__) && !defined(__clang__)
      /* Uses all registers. r7, the frame pointer of some compilations, is restored. */
      const uint32_t begin[2] = {(uint32_t)start * 512u, (uint32_t)(start + (start >> 23))};
      register uint32_t a __asm__("r5"), b __asm__("r6"), c __asm__("r8"), d __asm__("r9");
      register uint32_t A __asm__("r10"), B __asm__("r11"), C __asm__("r12"), D __asm__("lr");
      __asm__ volatile(
          "ldr r0, %[x]\n\t"
          "ldr r1, %[entries]\n\t"
          "ldr r2, %[end]\n\t"
          "ldr %[a], %[low]\n\t"
          "ldr %[A], %[high]\n\t"
          "push {r2, r7}\n\t"
          "mov %[b], %[a]\n\tmov %[c], %[a]\n\tmov %[d], %[a]\n\t"
          "mov %[B], %[A]\n\tmov %[C], %[A]\n\tmov %[D], %[A]\n"
          "1:\n\t"
          ".rept @COUNT@\n\t"
          "ldrd r2, r3, [r1], #8\n\t"
          "add r2, r0, r2, lsl #2\n\t"
          "ldrd r4, r7, [r2]\n\t"
          "smlal %[a], %[A], r4, r3\n\t"
          "smlal %[b], %[B], r7, r3\n\t"
          "ldrd r4, r7, [r2, #8]\n\t"
          "smlal %[c], %[C], r4, r3\n\t"
          "smlal %[d], %[D], r7, r3\n\t"
          ".endr\n\t"
          "ldr r2, [sp]\n\t"
          "cmp r1, r2\n\t"
          "bcc 1b\n\t"
          "pop {r2, r7}\n\t"
          : [a] "=&r"(a), [A] "=&r"(A), [b] "=&r"(b), [B] "=&r"(B), [c] "=&r"(c), [C] "=&r"(C),
            [d] "=&r"(d), [D] "=&r"(D)
          : [x] "m"(x), [entries] "m"(entries), [low] "m"(begin[0]), [high] "m"(begin[1]),
            [end] "m"(end)
          : "r0", "r1", "r2", "r3", "r4", "cc", "memory");
      const uint32_t low[4] = {a, b, c, d}, high[4] = {A, B, C, D};
#else
      uint32_t low[4], high[4];
      for (int32_t p = 0; p < 4; ++p) {
        int64_t sum = start * ((1LL << 32) + 512);
        for (const struct sparse_entry_i32 *e = entries; e < end; ++e)
          sum += (int64_t)x[e->at + p] * e->w;
        low[p] = (uint32_t)sum, high[p] = (uint32_t)((uint64_t)sum >> 32);
      }
#endif
      MODEL_UNROLLED
      for (int32_t p = 0; p < 4; ++p) {
        int32_t v = (int32_t)low[p];
        to[p * @COLUMN@] = (@ELEMENT@)(@NEAR@);
        v = (int32_t)(high[p] + (low[p] >> 31));
        to[p * @COLUMN@ + @FAR@] = (@ELEMENT@)(@NEXT@);
      }
      left -= 4;
      if (left <= 0) break;
      x += @STEP@, to += @STEP@ * @COLUMN@;
    }
  }
}
