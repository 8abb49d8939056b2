// RUN: ceras-opt %s | ceras-opt - | filecheck %s

!int8 = tensor<1x2x!quant.uniform<i8:f32, 0.5>>
!int16 = tensor<1x2x!quant.uniform<i16:f32, 0.125>>

// CHECK-LABEL: func.func @main(
func.func @main(%x: !int8, %y: !int16, %z: tensor<1x2xf32>) {
  // CHECK: graph.lookup %x, dense<3> : tensor<2x256xi8> {rows = array<i64: 1, 0>}
  %0 = graph.lookup %x, dense<3> : tensor<2x256xi8> {rows = array<i64: 1, 0>} : (!int8) -> !int8
  // CHECK: graph.lookup %y, dense<3> : tensor<1024xi8>
  %1 = graph.lookup %y, dense<3> : tensor<1024xi8> : (!int16) -> !int8
  // CHECK: graph.shift_swish %y {bends = array<i64: 1, 2, 4, 3, 1>, requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>}
  %2 = graph.shift_swish %y {bends = array<i64: 1, 2, 4, 3, 1>, requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (!int16) -> !int8
  // CHECK: graph.unary <swish> %z {input_exponents = array<i64: 0, 5>, result_exponents = array<i64: -3, 1>}
  %3 = graph.unary <swish> %z {input_exponents = array<i64: 0, 5>, result_exponents = array<i64: -3, 1>} : tensor<1x2xf32>
  func.return
}

// A table in the epilogue of a sum of products, and one that makes floats.
// CHECK-LABEL: func.func @fused
func.func @fused(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) {
  // CHECK: graph.matmul %x, %w {requant = #graph.requant<{{.*}}>, table = dense<3> : tensor<2x256xi8>, rows = array<i64: 1, 0>}
  %0 = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, table = dense<3> : tensor<2x256xi8>, rows = array<i64: 1, 0>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  // CHECK: graph.lookup %{{.*}}, dense<1.000000e+00> : tensor<256xf32>
  %1 = graph.lookup %0, dense<1.0> : tensor<256xf32> : (tensor<3x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2xf32>
  func.return
}
