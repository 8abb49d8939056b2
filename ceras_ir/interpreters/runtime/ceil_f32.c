#include "floor_f32.c"
#define ceil_f32(x) (-floor_f32(-(x)))
