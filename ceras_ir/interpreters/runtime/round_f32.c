#include "rint_f32.c"
#define round_f32(x) rint_f32(x)
