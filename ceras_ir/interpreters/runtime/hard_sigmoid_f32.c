#include "clip_f32.c"
#define hard_sigmoid_f32(x, p0, p1) clip_f32(p0 * x + p1, 0.0f, 1.0f)
