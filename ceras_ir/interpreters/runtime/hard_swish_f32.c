#include "clip_f32.c"
#define hard_swish_f32(x) (x * (clip_f32(x + 3.0f, 0.0f, 6.0f) / 6.0f))
