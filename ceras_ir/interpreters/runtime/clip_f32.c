/* min(max(x, low), high); not a number stays so. */
static float clip_f32(float x, float low, float high)
{
  return x < low ? low : x > high ? high : x;
}
