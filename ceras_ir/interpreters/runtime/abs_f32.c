static float abs_f32(float x)
{
  return x <= 0.0f ? 0.0f - x : x;
}
