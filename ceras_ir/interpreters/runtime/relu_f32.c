#define relu_f32(x) (x < 0.0f ? 0.0f : x)
