// RUN: ceras-opt %s -t onnx -o %t.onnx && ceras-opt %t.onnx --fuse --quantize | filecheck %s

// Comes back as it went: shifts, rounding, clamp ranges, residual, the table and its ends.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x2x2x2xf32> {graph.name = "x"}) -> (tensor<1x2x2x2xf32> {graph.name = "y"}) {
  %q = graph.quantize %x : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.125>>
  %t = graph.transpose %q {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x2x2x2x!quant.uniform<i8:f32, 0.125>>) -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.125>>
  %w = graph.constant dense<[[[[1, 2]]], [[[3, -4]]]]> : tensor<2x1x1x2xi8> : tensor<2x1x1x2x!quant.uniform<i8:f32, 0.25>>
  %b = graph.constant dense<[5, -6]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.03125>>
  %c = graph.conv2d %t, %w bias %b : tensor<2x!quant.uniform<i32:f32, 0.03125>> residual %t : tensor<1x2x2x2x!quant.uniform<i8:f32, 0.125>> {requant = #graph.requant<shift = 3, rounding = half_up, low = -3, high = 100>, residual_shift = 2 : i64} : (tensor<1x2x2x2x!quant.uniform<i8:f32, 0.125>>, tensor<2x1x1x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25>>
  %r = graph.requantize %c {requant = #graph.requant<shift = 1, rounding = half_up, low = 0, high = 127>} : (tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
  %d = graph.dequantize %r : (tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x2xf32>
  %y = graph.transpose %d {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}
// CHECK: graph.conv2d {{.*}} bias {{.*}} residual {{.*}} {requant = #graph.requant<shift = 3, rounding = half_up, low = -3, high = 100>, residual_shift = 2 : i64}
// CHECK: graph.requantize %{{.*}} {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>}
