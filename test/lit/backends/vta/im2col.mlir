// RUN: ceras-opt %s --im2col="convolution=im2col" --split-input-file | filecheck %s --check-prefixes=CHECK,ALL
// RUN: ceras-opt %s --im2col="convolution=im2col" --im2col="convolution=im2col" --split-input-file | filecheck %s --check-prefixes=CHECK,ALL
// RUN: ceras-opt %s --im2col --split-input-file | filecheck %s --check-prefixes=CHECK,COST

// A window of 2x2 with stride 2 below one row of padding: rows 0 1 2 3 of the padded image, then
// columns, then the taps of a window side by side. All of them also by cost, as they fill half of a
// vector: then the host packs them from the image in one step.
// CHECK-LABEL: func.func @stem(
// ALL-NEXT:      %[[P:.*]] = graph.pad constant %{{.*}} {low = array<i64: 0, 1, 0, 0>, high = array<i64: 0, 0, 0, 0>
// ALL-NEXT:      %[[R:.*]] = graph.gather %[[P]] {axis = 1 : i64, indices = array<i64: 0, 1, 2, 3>}
// ALL-NEXT:      %[[S:.*]] = graph.reshape %[[R]] {{.*}} -> tensor<1x2x2x4x2x
// ALL-NEXT:      %[[C:.*]] = graph.gather %[[S]] {axis = 3 : i64, indices = array<i64: 0, 1, 2, 3>}
// ALL-NEXT:      %[[D:.*]] = graph.reshape %[[C]] {{.*}} -> tensor<1x2x2x2x2x2x
// ALL-NEXT:      %[[T:.*]] = graph.transpose %[[D]] {permutation = array<i64: 0, 1, 3, 2, 4, 5>}
// ALL-NEXT:      %[[X:.*]] = graph.reshape %[[T]] {{.*}} -> tensor<1x2x2x8x
// ALL-NEXT:      %[[W:.*]] = graph.constant dense<{{\[\[\[\[}}1, 2, 3, 4, 5, 6, 7, 8]]]]> : tensor<1x1x1x8xi8>
// ALL-NEXT:      %[[Y:.*]] = graph.conv2d %[[X]], %[[W]] {requant
// ALL-NEXT:      func.return %[[Y]]
// COST-NEXT:     %[[P:.*]] = mem.pack_windows %{{.*}} {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, offset = array<i64: 1, 0>, value = 0 : i64, constants = array<i64>}
// COST-NEXT:     %[[X:.*]] = mem.unpack %[[P]] {{.*}} -> tensor<1x2x2x8x
// COST:          graph.conv2d %[[X]], %{{.*}} {requant
func.func @stem(%x: tensor<1x3x4x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<[[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]> : tensor<1x2x2x2xi8> : tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 0, 0, 0>, requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>} : (tensor<1x3x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

// A window of one position is its own matrix; channels in groups have one each, and floats are not VTA's.
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     graph.gather
// CHECK-NOT:     mem.pack_windows
func.func @others(%x: tensor<1x3x3x2x!quant.uniform<i8:f32, 0.5>>, %f: tensor<1x3x3x2xf32>) -> (tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x1xf32>) {
  %w = graph.constant dense<1> : tensor<1x1x1x2xi8> : tensor<1x1x1x2x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {strides = array<i64: 2, 2>, requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>} : (tensor<1x3x3x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x1x1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %v = graph.constant dense<1> : tensor<2x2x2x1xi8> : tensor<2x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %z = graph.conv2d %x, %v {groups = 2 : i64, requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>} : (tensor<1x3x3x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
  %u = graph.constant dense<1.0> : tensor<1x2x2x2xf32> : tensor<1x2x2x2xf32>
  %g = graph.conv2d %f, %u : (tensor<1x3x3x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x1xf32>
  func.return %y, %z, %g : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x1xf32>
}

// -----

// Padding in the matrix is the zero point.
// CHECK-LABEL: func.func @zero_point(
// ALL:           graph.pad constant {{.*}}value = -9 : i64
// ALL:           graph.gather
func.func @zero_point(%x: tensor<1x3x4x2x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<[[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]> : tensor<1x2x2x2xi8> : tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 0, 0, 0>, requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>} : (tensor<1x3x4x2x!quant.uniform<i8:f32, 0.5:-9>>, tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

// By cost three taps of a column are together: all nine need two vectors, and more bytes of the
// host. The zero point is around the parts, not around the convolution that is left.
// CHECK-LABEL: func.func @column(
// COST-NEXT:     %[[P:.*]] = mem.pack_windows %{{.*}} {kernel = array<i64: 3, 1>, strides = array<i64: 1, 1>, offset = array<i64: 1, 1>, value = -9 : i64, constants = array<i64>}
// COST-NEXT:     %[[X:.*]] = mem.unpack %[[P]] {{.*}} -> tensor<1x32x34x9x
// COST-NEXT:     %[[W:.*]] = graph.constant dense<"0x0102030A0B0C1314150405060D0E0F161718070809101112191A1B"> : tensor<1x1x3x9xi8>
// COST-NEXT:     graph.conv2d %[[X]], %[[W]] {requant
func.func @column(%x: tensor<1x32x32x3x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x32x32x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[10, 11, 12], [13, 14, 15], [16, 17, 18]], [[19, 20, 21], [22, 23, 24], [25, 26, 27]]]]> : tensor<1x3x3x3xi8> : tensor<1x3x3x3x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>, requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>} : (tensor<1x32x32x3x!quant.uniform<i8:f32, 0.5:-9>>, tensor<1x3x3x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x32x32x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x32x32x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

// By cost windows stay where no lane is empty.
// CHECK-LABEL: func.func @full(
// COST-NOT:      mem.pack_windows
func.func @full(%x: tensor<1x8x8x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x7x7x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<1> : tensor<1x2x2x16xi8> : tensor<1x2x2x16x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>} : (tensor<1x8x8x16x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x7x7x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x7x7x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

// The bias is in lanes that the eight taps leave empty, with half a unit: ones and lanes that count 127.
// CHECK-LABEL: func.func @bias(
// COST-NEXT:     mem.pack_windows {{.*}}constants = array<i64: 1, 127, 127, 127, 127, 127, 127, 127>}
// COST:     %[[B:.*]] = graph.constant dense<-64> : tensor<1xi32>
// COST-NEXT:     graph.constant dense<{{\[\[\[\[}}1, 2, 3, 4, 5, 6, 7, 8, 46, 8, 0, 0, 0, 0, 0, 0]]]]>
// COST-NEXT:     graph.conv2d %{{.*}}, %{{.*}} bias %[[B]]
func.func @bias(%x: tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<[[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]> : tensor<1x2x2x2xi8> : tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
  %b = graph.constant dense<998> : tensor<1xi32> : tensor<1x!quant.uniform<i32:f32, 0.25>>
  %y = graph.conv2d %x, %w bias %b : tensor<1x!quant.uniform<i32:f32, 0.25>> {strides = array<i64: 2, 2>, requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>} : (tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

// A mask has the shape of its weights.
// CHECK-LABEL: func.func @masked(
// ALL:           graph.conv2d {{.*}}sparse.mask = #sparse.mask<2 of [1, 1, 1, 4], "0x09">
func.func @masked(%x: tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x3x3x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<[[[[1], [0]], [[0], [4]]]]> : tensor<1x2x2x1xi8> : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {sparse.mask = #sparse.mask<2 of [1, 2, 2, 1], "0x09">, requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>} : (tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x3x3x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x3x3x1x!quant.uniform<i8:f32, 0.5>>
}
