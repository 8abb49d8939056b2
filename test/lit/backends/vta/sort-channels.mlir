// RUN: ceras-opt %s --sort-channels --split-input-file | filecheck %s
// RUN: ceras-opt %s --sort-channels --sort-channels --split-input-file | filecheck %s

// The even channels of the first layer have another shift than the odd ones: the former come last.
// Its reader, whose result leaves the network, has other input channels only.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[B:.*]] = graph.constant dense<"0x0C0000000E00000010000000120000001400000016000000180000001A0000001C0000000B0000000D0000000F00000011000000130000001500000017000000190000001B000000">
// CHECK:         %[[W:.*]] = graph.constant dense<"0x020406080A0C0E101201030507090B0D0F11">
// CHECK:         graph.matmul %{{.*}}, %[[W]] bias %[[B]] {{.*}} {requant = #graph.requant<multiplier = [4, 4, 4, 4, 4, 4, 4, 4, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1]
// CHECK:         %[[V:.*]] = graph.constant dense<"0x020406080A0C0E101201030507090B0D0F11000000000000000000000000000000000000">
// CHECK:         graph.matmul %{{.*}}, %[[V]] {requant = #graph.requant<multiplier = [1, 4],
func.func @main(%x: tensor<3x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<[[1], [2], [3], [4], [5], [6], [7], [8], [9], [10], [11], [12], [13], [14], [15], [16], [17], [18]]> : tensor<18x1xi8> : tensor<18x1x!quant.uniform<i8:f32, 0.5>>
  %b = graph.constant dense<[11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28]> : tensor<18xi32> : tensor<18x!quant.uniform<i32:f32, 0.25>>
  %y = graph.matmul %x, %w bias %b : tensor<18x!quant.uniform<i32:f32, 0.25>> {requant = #graph.requant<multiplier = [1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4], shift = 9, rounding = half_up, low = 0, high = 127>} : (tensor<3x1x!quant.uniform<i8:f32, 0.5>>, tensor<18x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x18x!quant.uniform<i8:f32, 0.5>>
  %v = graph.constant dense<[[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]> : tensor<2x18xi8> : tensor<2x18x!quant.uniform<i8:f32, 0.5>>
  %z = graph.matmul %y, %v {requant = #graph.requant<multiplier = [1, 4], shift = 9, rounding = half_up, low = 0, high = 127>} : (tensor<3x18x!quant.uniform<i8:f32, 0.5>>, tensor<2x18x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return %z : tensor<3x2x!quant.uniform<i8:f32, 0.5>>
}

// -----

// A transpose reads the channels: they stay.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.matmul {{.*}} {requant = #graph.requant<multiplier = [1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4]
func.func @main(%x: tensor<3x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<1> : tensor<18x1xi8> : tensor<18x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.matmul %x, %w {requant = #graph.requant<multiplier = [1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4], shift = 9, rounding = half_up, low = 0, high = 127>} : (tensor<3x1x!quant.uniform<i8:f32, 0.5>>, tensor<18x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x18x!quant.uniform<i8:f32, 0.5>>
  %t = graph.transpose %y {permutation = array<i64: 1, 0>} : (tensor<3x18x!quant.uniform<i8:f32, 0.5>>) -> tensor<18x3x!quant.uniform<i8:f32, 0.5>>
  %u = graph.transpose %t {permutation = array<i64: 1, 0>} : (tensor<18x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x18x!quant.uniform<i8:f32, 0.5>>
  %v = graph.constant dense<1> : tensor<2x18xi8> : tensor<2x18x!quant.uniform<i8:f32, 0.5>>
  %z = graph.matmul %u, %v {requant = #graph.requant<shift = 9, rounding = half_up, low = 0, high = 127>} : (tensor<3x18x!quant.uniform<i8:f32, 0.5>>, tensor<2x18x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return %z : tensor<3x2x!quant.uniform<i8:f32, 0.5>>
}
