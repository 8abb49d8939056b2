/* y[i] = the sum of row i of x [rows, n] in the order of elements: eight rows at a time, because
 * each addition of a row waits for the previous one. */
static void sum_last_f32(const float *restrict x, float *restrict y, int32_t rows, int32_t n)
{
  int32_t i = 0;
  for (; (i + 8) <= rows; i += 8) {
    const float *x1 = &x[n];
    const float *x2 = &x1[n];
    const float *x3 = &x2[n];
    const float *x4 = &x3[n];
    const float *x5 = &x4[n];
    const float *x6 = &x5[n];
    const float *x7 = &x6[n];
    float s0 = *x;
    float s1 = *x1;
    float s2 = *x2;
    float s3 = *x3;
    float s4 = *x4;
    float s5 = *x5;
    float s6 = *x6;
    float s7 = *x7;
    for (int32_t k = 1; k < n; ++k) {
      s0 += x[k]; s1 += x1[k]; s2 += x2[k]; s3 += x3[k];
      s4 += x4[k]; s5 += x5[k]; s6 += x6[k]; s7 += x7[k];
    }
    y[i] = s0; y[i + 1] = s1; y[i + 2] = s2; y[i + 3] = s3;
    y[i + 4] = s4; y[i + 5] = s5; y[i + 6] = s6; y[i + 7] = s7;
    x += 8 * n;
  }
  for (; i < rows; ++i) {
    float s = *x;
    for (int32_t k = 1; k < n; ++k) {
      s += x[k];
    }
    y[i] = s;
    x += n;
  }
}
