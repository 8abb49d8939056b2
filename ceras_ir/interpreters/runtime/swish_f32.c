#include "sigmoid_f32.c"
#define swish_f32(x) (x * sigmoid_f32(x))
