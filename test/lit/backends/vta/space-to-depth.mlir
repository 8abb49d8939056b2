// RUN: ceras-opt %s --space-to-depth --split-input-file | filecheck %s
// RUN: ceras-opt %s --space-to-depth --space-to-depth --split-input-file | filecheck %s

// Window and stride of 2 in one channel: four channels, and a window of one position.
// CHECK-LABEL: func.func @stem(
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %{{.*}} -> tensor<1x2x2x2x2x1x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %[[R]] {permutation = array<i64: 0, 1, 3, 2, 4, 5>}
// CHECK-NEXT:    %[[X:.*]] = graph.reshape %[[T]] : {{.*}} -> tensor<1x2x2x4x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    %[[W:.*]] = graph.constant dense<{{\[\[\[\[}}1, 2, 3, 4]]]]> : tensor<1x1x1x4xi8>
// CHECK-NEXT:    %[[Y:.*]] = graph.conv2d %[[X]], %[[W]] {requant
// CHECK-NEXT:    func.return %[[Y]]
func.func @stem(%x: tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<[[[[1], [2]], [[3], [4]]]]> : tensor<1x2x2x1xi8> : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {strides = array<i64: 2, 2>, requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>} : (tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

// Rows that the stride does not cut evenly stay.
// CHECK-LABEL: func.func @odd(
// CHECK-NOT:     graph.transpose
// CHECK:         graph.conv2d %{{.*}} {{.*}}strides = array<i64: 2, 2>
func.func @odd(%x: tensor<1x5x4x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<[[[[1], [2]], [[3], [4]]]]> : tensor<1x2x2x1xi8> : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {strides = array<i64: 2, 2>, requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>} : (tensor<1x5x4x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

// A zero point moves with its numbers; padding stays padding, which contributes nothing.
// CHECK-LABEL: func.func @zero_point(
// CHECK:         graph.transpose
// CHECK:         graph.conv2d {{.*}}padding = array<i64: 1, 0, 0, 0>{{.*}} : (tensor<1x2x2x4x!quant.uniform<i8:f32, 0.5:-9>>
func.func @zero_point(%x: tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x3x2x1x!quant.uniform<i8:f32, 0.5:2>> {
  %w = graph.constant dense<[[[[1], [2]], [[3], [4]]]]> : tensor<1x2x2x1xi8> : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 2, 0, 0, 0>, requant = #graph.requant<shift = 7, rounding = half_up, zero_point = 2, low = 0, high = 127>} : (tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5:-9>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x3x2x1x!quant.uniform<i8:f32, 0.5:2>>
  func.return %y : tensor<1x3x2x1x!quant.uniform<i8:f32, 0.5:2>>
}

// -----

// A mask moves with its weights, and so do zeros between them: the second row of the window begins a
// row of new positions.
// CHECK-LABEL: func.func @masked(
// CHECK:         graph.constant dense<{{\[\[\[\[}}0, 0, 1, 0]], {{\[\[}}0, 4, 0, 0]]]]> : tensor<1x2x1x4xi8>
// CHECK:         graph.conv2d {{.*}}sparse.mask = #sparse.mask<2 of [1, 2, 1, 4], "0x24">
func.func @masked(%x: tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<[[[[1], [0]], [[0], [4]]]]> : tensor<1x2x2x1xi8> : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {sparse.mask = #sparse.mask<2 of [1, 2, 2, 1], "0x09">, strides = array<i64: 2, 2>, padding = array<i64: 1, 0, 0, 0>, requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>} : (tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

// Where weights have a zero point, a stored 0 between them would be another number.
// CHECK-LABEL: func.func @weights_with_zero_point(
// CHECK-NOT:     graph.transpose
func.func @weights_with_zero_point(%x: tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<[[[[1], [2]], [[3], [4]]]]> : tensor<1x2x2x1xui8> : tensor<1x2x2x1x!quant.uniform<u8:f32, 0.5:2>>
  %y = graph.conv2d %x, %w {strides = array<i64: 2, 2>, requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>} : (tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x1x!quant.uniform<u8:f32, 0.5:2>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
}
