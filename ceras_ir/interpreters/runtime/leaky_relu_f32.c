#define leaky_relu_f32(x, p0) (x >= 0.0f ? x : p0 * x)
