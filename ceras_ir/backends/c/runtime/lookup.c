#include "lookup_lanes.c"
/* y[i] = table[x[i] + 128]; x and y may be the same array. */
MODEL_TILE void lookup(int8_t *y, const int8_t *x, const int8_t *table, int32_t n)
{
  int32_t i = 0;
#if MODEL_LOOKUP
  const model_bytes *part = (const model_bytes *)(const void *)table;
  const model_bytes a = part[0];
  const model_bytes b = part[1];
  const model_bytes c = part[2];
  const model_bytes d = part[3];
  for (; (i + 64) <= n; i += 64) {
    const model_bytes at = *(const model_bytes *)(const void *)(x + i);
    const uint64_t negative = __builtin_ia32_cvtb2mask512(at);
    const model_bytes v = look_up(at, a, b, c, d, negative);
    *(model_bytes *)(void *)(y + i) = v;
  }
#endif
  for (; i < n; ++i) {
    y[i] = table[x[i] + 128];
  }
}
