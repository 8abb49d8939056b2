static inline float abs_f32(float x)
{
  union { float value; uint32_t bits; } u;
  u.value = x;
  u.bits &= 0x7FFFFFFFu;
  return u.value;
}
