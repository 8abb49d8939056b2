#define thresholded_relu_f32(x, p0) (x > p0 ? x : 0.0f)
