/* value / 256 as a byte: floored, and clamped to 0..255. */
static int32_t upper_byte(int32_t value)
{
  return (value < 0) ? 0 : (value > 65535) ? 255 : (value >> 8);
}
