static float tanh_f32(float x)
{
  return 2.0f * sigmoid_f32(2.0f * x) - 1.0f;
}
