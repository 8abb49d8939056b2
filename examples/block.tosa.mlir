!image = tensor<1x8x8x3xf32>
!sums = tensor<1x4x4x2xf32>
func.func @main(%image: !image) -> !sums {
  %weights = "tosa.const"() <{values = dense<0.25> : tensor<2x3x3x3xf32>}> : () -> tensor<2x3x3x3xf32>
  %bias = "tosa.const"() <{values = dense<[1.0, -1.0]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %zero = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %sums = tosa.conv2d %image, %weights, %bias, %zero, %zero {acc_type = f32, dilation = array<i64: 1, 1>,
      pad = array<i64: 1, 0, 1, 0>, stride = array<i64: 2, 2>}
    : (!image, tensor<2x3x3x3xf32>, tensor<2xf32>, tensor<1xf32>, tensor<1xf32>) -> !sums
  %scores = tosa.clamp %sums {min_val = 0.0 : f32, max_val = 6.0 : f32} : (!sums) -> !sums
  return %scores : !sums
}
