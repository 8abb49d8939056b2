/* The nearest integer, ties to even, for any float; adding 2^23 leaves no room for a fraction. Of
 * either zero 0. */
static float rint_f32(float x)
{
  const float magnitude = x < 0.0f ? -x : x;
  const float rounded = (magnitude + 8388608.0f) - 8388608.0f;
  const float whole = magnitude < 8388608.0f ? rounded : magnitude;
  return x < 0.0f ? -whole : whole;
}
