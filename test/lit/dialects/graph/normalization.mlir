// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

!q8 = !quant.uniform<i8:f32, 0.0625>
!q16 = !quant.uniform<i16:f32, 0.0078125>
!s = !quant.uniform<i16:f32, 0.5>
!b = !quant.uniform<i32:f32, 0.0001220703125>
!t = !quant.uniform<i32:f32, 3.0517578125e-05>

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<3x4xf32>, %f: tensor<4xf32>, %q: tensor<3x4x!q8>, %s: tensor<4x!s>, %b: tensor<4x!b>, %t: tensor<9x!t>) {
  // CHECK: graph.normalize %x scale %f : tensor<4xf32> {epsilon = 1.000000e-05 : f32, centred = false} : tensor<3x4xf32> -> tensor<3x4xf32>
  %0 = graph.normalize %x scale %f : tensor<4xf32> {epsilon = 1.0e-5 : f32, centred = false} : tensor<3x4xf32> -> tensor<3x4xf32>
  // CHECK: graph.normalize %x scale %f : tensor<4xf32> bias %f : tensor<4xf32> {epsilon = 1.000000e-05 : f32, centred = true} : tensor<3x4xf32> -> tensor<3x4xf32>
  %1 = graph.normalize %x scale %f : tensor<4xf32> bias %f : tensor<4xf32> {epsilon = 1.0e-5 : f32, centred = true} : tensor<3x4xf32> -> tensor<3x4xf32>
  // CHECK: graph.integer_normalize %q scale %s : tensor<4x!quant.uniform<i16:f32, 0.5>> bias %b : tensor<4x!quant.uniform<i32:f32, 0.0001220703125>> {epsilon = 1024 : i64, centred = true, requant = #graph.requant<shift = 6, rounding = half_up, low = -32768, high = 32767>}
  %2 = graph.integer_normalize %q scale %s : tensor<4x!s> bias %b : tensor<4x!b> {epsilon = 1024 : i64, centred = true, requant = #graph.requant<shift = 6, rounding = half_up, low = -32768, high = 32767>} : tensor<3x4x!q8> -> tensor<3x4x!q16>
  // CHECK: graph.integer_softmax %q table %t : tensor<9x!quant.uniform<i32:f32, 3.0517578125e-05>> {axis = 1 : i64, requant = #graph.requant<shift = 27, rounding = half_up, low = -128, high = 127>}
  %3 = graph.integer_softmax %q table %t : tensor<9x!t> {axis = 1 : i64, requant = #graph.requant<shift = 27, rounding = half_up, low = -128, high = 127>} : tensor<3x4x!q8> -> tensor<3x4x!q8>
  func.return
}
