#define sign_f32(x) (x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x)
