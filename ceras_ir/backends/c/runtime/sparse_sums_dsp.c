#include "dsp.c"
/* The same of 8 positions, products of halves of words; two entries at a time, so that `e` has
 * room for one more, which is made nothing. */
#if defined(__ARM_FEATURE_DSP)
static void DSP_LOOP sparse_sums_dsp(const int8_t *restrict x, struct sparse_entry_i8 *restrict e,
                                     int32_t n, int32_t *restrict sums)
{
  int32_t a = 0, b = 0, c = 0, d = 0, f = 0, g = 0, h = 0, i = 0;
  const struct sparse_entry_i8 *const end = e + n;
  if (n & 1) e[n].at = 0, e[n].w = 0;
  if (n) do {
    int32_t w, at;
    uint32_t u, v;
    __asm__ volatile(
        ".rept 2\n\t"
        "ldrd %[at], %[w], [%[e]], #8\n\t"
        "add %[at], %[x], %[at]\n\t"
        "ldr %[u], [%[at]]\n\t"
        "sxtb16 %[v], %[u]\n\t"
        "sxtb16 %[u], %[u], ror #8\n\t"
        "smlabb %[a], %[v], %[w], %[a]\n\t"
        "smlabb %[b], %[u], %[w], %[b]\n\t"
        "smlatb %[c], %[v], %[w], %[c]\n\t"
        "smlatb %[d], %[u], %[w], %[d]\n\t"
        "ldr %[u], [%[at], #4]\n\t"
        "sxtb16 %[v], %[u]\n\t"
        "sxtb16 %[u], %[u], ror #8\n\t"
        "smlabb %[f], %[v], %[w], %[f]\n\t"
        "smlabb %[g], %[u], %[w], %[g]\n\t"
        "smlatb %[h], %[v], %[w], %[h]\n\t"
        "smlatb %[i], %[u], %[w], %[i]\n\t"
        ".endr\n\t"
        : [e] "+r"(e), [at] "=&r"(at), [w] "=&r"(w), [u] "=&r"(u), [v] "=&r"(v), [a] "+r"(a),
          [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [f] "+r"(f), [g] "+r"(g), [h] "+r"(h),
          [i] "+r"(i)
        : [x] "r"(x)
        : "memory");
  } while (e < end);
  sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
  sums[4] = f, sums[5] = g, sums[6] = h, sums[7] = i;
}
#endif
