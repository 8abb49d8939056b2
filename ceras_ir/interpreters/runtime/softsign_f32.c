#include "abs_f32.c"
#define softsign_f32(x) (x / (1.0f + abs_f32(x)))
