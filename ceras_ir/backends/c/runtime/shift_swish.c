/* Swish of q by straight pieces, with five constants k; right shifts are arithmetic. */
static int32_t shift_swish(int32_t q, const int32_t *k)
{
  const int32_t p = (q < 0) ? -q : q;
  const int32_t m = -p;
  int32_t tail = (p >> 3) - k[2];
  int32_t dip = (m >> 2) - k[0];
  if (((p >> 4) - k[3]) < tail) {
    tail = (p >> 4) - k[3];
  }
  if (((p >> 6) - k[4]) < tail) {
    tail = (p >> 6) - k[4];
  }
  if (tail > 0) {
    tail = 0;
  }
  if ((m >> 1) > dip) {
    dip = m >> 1;
  }
  if (-k[1] > dip) {
    dip = -k[1];
  }
  if (tail > dip) {
    dip = tail;
  }
  return ((q > 0) ? q : 0) + dip;
}
