/* The float of which `upper` is the upper half. */
MODEL_INLINE float block_scale(uint16_t upper)
{
  const uint32_t bits = (uint32_t)upper << 16;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return scale;
}
