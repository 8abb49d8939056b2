#include "exp_minus_one_f32.c"
#define celu_f32(x, p0) (x >= 0.0f ? x : p0 * exp_minus_one_f32(x / p0))
