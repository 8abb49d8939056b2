#include "abs_f32.c"
#include "select_f32.c"
/* The sine of x and quarter times pi / 2 as a fixed sequence of float32 operations. */
static inline float wave_f32(float x, int32_t quarter)
{
  const uint32_t inside = -(uint32_t)(abs_f32(x) <= @LARGEST_ANGLE@);
  const float safe = select_f32(inside, x, 0.0f), t = safe * @TWO_OVER_PI@ + 0.5f;
  int32_t n = (int32_t)t;
  n -= (float)n > t; /* floor */
  const float f = (float)n;
  const float r = ((safe - f * @HALF_PI_HIGH@) - f * @HALF_PI_MIDDLE@) - f * @HALF_PI_LOW@;
  const float s = r * r;
  float p = @SIN_COEFFICIENTS[0]@, q = @COS_COEFFICIENTS[0]@;
  p = p * s + @SIN_COEFFICIENTS[1:]@;
  q = q * s + @COS_COEFFICIENTS[1:]@;
  const float sine = p * s * r + r, cosine = (q * (s * s) - 0.5f * s) + 1.0f;
  const uint32_t number = (uint32_t)(n + quarter);
  const float y = select_f32(0u - (number & 1u), cosine, sine);
  return select_f32(inside, select_f32(0u - (number >> 1 & 1u), -y, y), NAN);
}
