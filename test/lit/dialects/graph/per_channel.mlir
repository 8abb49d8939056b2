// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --split-input-file --verify-diagnostics

// CHECK-LABEL: func.func @per_channel
// CHECK: requant = #graph.requant<multiplier = [5, 7], shift = 3, rounding = half_up, low = -128, high = 127>
func.func @per_channel(%x: tensor<1x2x!quant.uniform<i8:f32, 0.5:-128>>, %w: tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>> {
  %y = graph.matmul %x, %w {requant = #graph.requant<multiplier = [5, 7], shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x!quant.uniform<i8:f32, 0.5:-128>>, tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x2x!quant.uniform<i8:f32, 0.5>>
}

// CHECK-LABEL: func.func @multiplied
// CHECK: lhs_multiplier = 3 : i64, rhs_multiplier = 5 : i64
func.func @multiplied(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<u8:f32, 0.5:128>> {
  %y = graph.binary add %x, %x {lhs_multiplier = 3 : i64, rhs_multiplier = 5 : i64, requant = #graph.requant<shift = 3, rounding = half_even, zero_point = 128, low = 0, high = 255>} : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<u8:f32, 0.5:128>>
  func.return %y : tensor<2x!quant.uniform<u8:f32, 0.5:128>>
}
