#include "wave_f32.c"
#define cos_f32(x) wave_f32(x, 1)
