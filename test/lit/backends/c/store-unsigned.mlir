// RUN: ceras-opt %s --store-unsigned --split-input-file | filecheck %s
// RUN: ceras-opt %s --store-unsigned --store-unsigned --split-input-file | filecheck %s

// Both layers multiply bytes by constant weights: bounds and zero point of what is between move.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<3x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x1x!quant.uniform<i8:f32, 0.5:-3>> {
  %v = graph.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  %w = graph.constant dense<[[-7, 5]]> : tensor<1x2xi8> : tensor<1x2x!quant.uniform<i8:f32, 0.25>>
  // CHECK: graph.matmul {{.*}} {requant = #graph.requant<multiplier = [1, 2], shift = 2, rounding = half_up, low = 0, high = 192>} : {{.*}} -> tensor<3x2x!quant.uniform<u8:f32, 0.5>>
  %a = graph.matmul %x, %v {requant = #graph.requant<multiplier = [1, 2], shift = 2, rounding = half_up, zero_point = -128, low = -128, high = 64>} : (tensor<3x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5:-128>>
  // CHECK-NEXT: graph.matmul {{.*}} zero_point = -3, low = -128, high = 127>} : (tensor<3x2x!quant.uniform<u8:f32, 0.5>>, {{.*}} -> tensor<3x1x!quant.uniform<i8:f32, 0.5:-3>>
  %b = graph.matmul %a, %w {requant = #graph.requant<shift = 2, rounding = half_up, zero_point = -3, low = -128, high = 127>} : (tensor<3x2x!quant.uniform<i8:f32, 0.5:-128>>, tensor<1x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x1x!quant.uniform<i8:f32, 0.5:-3>>
  func.return %b : tensor<3x1x!quant.uniform<i8:f32, 0.5:-3>>
}

// -----

// The first is also a residual, the second returned; the third has 16 bits.
// CHECK-LABEL: func.func @main
// CHECK-NOT: u8
func.func @main(%x: tensor<3x2x!quant.uniform<i8:f32, 0.5>>) -> (tensor<3x2x!quant.uniform<i8:f32, 0.5>>, tensor<3x2x!quant.uniform<i8:f32, 0.5>>) {
  %w = graph.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  %a = graph.matmul %x, %w {requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<3x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  %b = graph.matmul %a, %w residual %a : tensor<3x2x!quant.uniform<i8:f32, 0.5>> {residual_shift = 2 : i64, requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<3x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  %c = graph.matmul %b, %w {requant = #graph.requant<shift = 2, rounding = half_up, low = -32768, high = 32767>} : (tensor<3x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x2x!quant.uniform<i16:f32, 0.5>>
  %d = graph.matmul %c, %w {requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<3x2x!quant.uniform<i16:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return %b, %d : tensor<3x2x!quant.uniform<i8:f32, 0.5>>, tensor<3x2x!quant.uniform<i8:f32, 0.5>>
}

// -----

// Something else reads it, or weights are computed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: u8
func.func @main(%x: tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> (tensor<2x2xf32>, tensor<2x2x!quant.uniform<i8:f32, 0.5>>) {
  %w = graph.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  %a = graph.matmul %x, %w {requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  %b = graph.matmul %a, %x {requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  %c = graph.matmul %b, %w {requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  %d = graph.dequantize %b : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2xf32>
  func.return %d, %c : tensor<2x2xf32>, tensor<2x2x!quant.uniform<i8:f32, 0.5>>
}
