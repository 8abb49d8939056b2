#include "wave_f32.c"
#define sin_f32(x) wave_f32(x, 0)
