/* exp(x) - 1 as a fixed sequence of float32 operations, without cancellation near 0. */
static float exp_minus_one_f32(float x)
{
  if (abs_f32(x) < @NEAR@) {
    float p = @C0@;
@HORNER@
    return p * (x * x) + x;
  }
  return exp_f32(x) - 1.0f;
}
