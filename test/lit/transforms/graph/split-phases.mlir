// RUN: ceras-opt %s --split-phases --split-input-file | filecheck %s
// RUN: ceras-opt %s --split-phases --split-phases --split-input-file | filecheck %s
// RUN: ceras-opt %s --fuse --split-input-file | filecheck %s

// Four elements with zeros between, a window of four: two phases of two weights. The last weight
// meets the first output, so phases are in the order of outputs.
// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = graph.constant dense<{{\[\[\[\[}}2.000000e+00], [4.000000e+00]]], {{\[\[\[}}1.000000e+00], [3.000000e+00]]]]> : tensor<2x1x2x1xf32>
// CHECK: %[[B:.*]] = graph.constant dense<5.000000e-01> : tensor<2xf32>
// CHECK: %[[Y:.*]] = graph.conv2d %{{.*}}, %[[W]] bias %[[B]] : tensor<2xf32> {padding = array<i64: 0, 1, 0, 1>, activation = #graph.function<relu>} : (tensor<1x1x4x1xf32>, tensor<2x1x2x1xf32>) -> tensor<1x1x5x2xf32>
// CHECK: %[[Z:.*]] = graph.reshape %[[Y]] : (tensor<1x1x5x2xf32>) -> tensor<1x1x10x1xf32>
// CHECK: graph.slice %[[Z]] {starts = array<i64: 0, 0, 1, 0>{{.*}} -> tensor<1x1x8x1xf32>
// CHECK-NOT: graph.pad
func.func @main(%x: tensor<1x1x4x1xf32>) -> tensor<1x1x8x1xf32> {
  %w = graph.constant dense<[[[[1.0], [2.0], [3.0], [4.0]]]]> : tensor<1x1x4x1xf32> : tensor<1x1x4x1xf32>
  %b = graph.constant dense<[0.5]> : tensor<1xf32> : tensor<1xf32>
  %p = graph.pad constant %x {low = array<i64: 0, 0, 2, 0>, high = array<i64: 0, 0, 2, 0>, interior = array<i64: 0, 0, 1, 0>, value = 0.0 : f32} : (tensor<1x1x4x1xf32>) -> tensor<1x1x11x1xf32>
  %y = graph.conv2d %p, %w bias %b : tensor<1xf32> {activation = #graph.function<relu>} : (tensor<1x1x11x1xf32>, tensor<1x1x4x1xf32>) -> tensor<1x1x8x1xf32>
  func.return %y : tensor<1x1x8x1xf32>
}

// -----

// A number other than zero between elements, and a dilated window stay.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: graph.pad
func.func @main(%x: tensor<1x1x4x2xf32>) -> (tensor<1x1x6x2xf32>, tensor<1x1x5x2xf32>) {
  %w = graph.constant dense<1.0> : tensor<2x1x2x2xf32> : tensor<2x1x2x2xf32>
  %one = graph.pad constant %x {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 0, 0>, interior = array<i64: 0, 0, 1, 0>, value = 1.0 : f32} : (tensor<1x1x4x2xf32>) -> tensor<1x1x7x2xf32>
  %q = graph.pad constant %x {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 0, 0>, interior = array<i64: 0, 0, 1, 0>, value = 0.0 : f32} : (tensor<1x1x4x2xf32>) -> tensor<1x1x7x2xf32>
  %a = graph.conv2d %one, %w : (tensor<1x1x7x2xf32>, tensor<2x1x2x2xf32>) -> tensor<1x1x6x2xf32>
  %c = graph.conv2d %q, %w {dilations = array<i64: 1, 2>} : (tensor<1x1x7x2xf32>, tensor<2x1x2x2xf32>) -> tensor<1x1x5x2xf32>
  func.return %a, %c : tensor<1x1x6x2xf32>, tensor<1x1x5x2xf32>
}

// -----

// Two groups: a convolution of each phase, which has the residual of its columns.
// CHECK-LABEL: func.func @main
// CHECK: %[[W0:.*]] = graph.constant dense<{{\[\[\[\[}}2.000000e+00], [4.000000e+00]]], {{\[\[\[}}6.000000e+00], [8.000000e+00]]]]> : tensor<2x1x2x1xf32>
// CHECK: %[[R0:.*]] = graph.slice %[[R:.*]] {starts = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 2, 1>} : (tensor<1x1x8x2xf32>) -> tensor<1x1x4x2xf32>
// CHECK: %[[Y0:.*]] = graph.conv2d %[[X:[^ ]*]], %[[W0]] residual %[[R0]] : tensor<1x1x4x2xf32> {padding = array<i64: 0, 1, 0, 0>, groups = 2 : i64}
// CHECK: %[[W1:.*]] = graph.constant dense<{{\[\[\[\[}}1.000000e+00], [3.000000e+00]]], {{\[\[\[}}5.000000e+00], [7.000000e+00]]]]> : tensor<2x1x2x1xf32>
// CHECK: %[[R1:.*]] = graph.slice %[[R]] {starts = array<i64: 0, 0, 1, 0>, strides = array<i64: 1, 1, 2, 1>}
// CHECK: %[[Y1:.*]] = graph.conv2d %[[X]], %[[W1]] residual %[[R1]] : tensor<1x1x4x2xf32> {padding = array<i64: 0, 1, 0, 0>, groups = 2 : i64}
// CHECK: %[[Y:.*]] = graph.concat %[[Y0]], %[[Y1]] {axis = 0 : i64} {{.*}} -> tensor<2x1x4x2xf32>
// CHECK: graph.transpose %{{.*}} {permutation = array<i64: 1, 0, 2>} : (tensor<2x4x2xf32>) -> tensor<4x2x2xf32>
// CHECK-NOT: graph.pad
func.func @main(%x: tensor<1x1x4x2xf32>, %r: tensor<1x1x8x2xf32>) -> tensor<1x1x8x2xf32> {
  %w = graph.constant dense<[[[[1.0], [2.0], [3.0], [4.0]]], [[[5.0], [6.0], [7.0], [8.0]]]]> : tensor<2x1x4x1xf32> : tensor<2x1x4x1xf32>
  %p = graph.pad constant %x {low = array<i64: 0, 0, 3, 0>, high = array<i64: 0, 0, 1, 0>, interior = array<i64: 0, 0, 1, 0>, value = 0.0 : f32} : (tensor<1x1x4x2xf32>) -> tensor<1x1x11x2xf32>
  %y = graph.conv2d %p, %w residual %r : tensor<1x1x8x2xf32> {groups = 2 : i64} : (tensor<1x1x11x2xf32>, tensor<2x1x4x1xf32>) -> tensor<1x1x8x2xf32>
  func.return %y : tensor<1x1x8x2xf32>
}

// -----

// Quantized weights of a scale for each output stay so; what has no weight gets a zero point.
// CHECK-LABEL: func.func @main
// CHECK: graph.constant
// CHECK: %[[W0:.*]] = graph.constant dense<{{\[\[\[\[}}1]]], {{\[\[\[}}2]]]]> : tensor<2x1x1x1xi8> : tensor<2x1x1x1x!quant.uniform<i8:f32:0, {1.0, 2.0:5}>>
// CHECK: %[[D0:.*]] = graph.dequantize %[[W0]]
// CHECK: graph.conv2d %{{[^ ]*}}, %[[D0]]
// CHECK: %[[W1:.*]] = graph.constant dense<{{\[\[\[\[}}0]]], {{\[\[\[}}5]]]]> : tensor<2x1x1x1xi8>
// CHECK-NOT: graph.pad
func.func @main(%x: tensor<1x1x4x1xf32>) -> tensor<1x1x7x2xf32> {
  %q = graph.constant dense<[[[[1]]], [[[2]]]]> : tensor<2x1x1x1xi8> : tensor<2x1x1x1x!quant.uniform<i8:f32:0, {1.0, 2.0:5}>>
  %w = graph.dequantize %q : (tensor<2x1x1x1x!quant.uniform<i8:f32:0, {1.0, 2.0:5}>>) -> tensor<2x1x1x1xf32>
  %p = graph.pad constant %x {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 0, 0>, interior = array<i64: 0, 0, 1, 0>, value = 0.0 : f32} : (tensor<1x1x4x1xf32>) -> tensor<1x1x7x1xf32>
  %y = graph.conv2d %p, %w : (tensor<1x1x7x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x1x7x2xf32>
  func.return %y : tensor<1x1x7x2xf32>
}

// -----

// Scales of input channels: the zero points of the channels fill the row without weights.
// CHECK-LABEL: func.func @main
// CHECK: %[[W0:.*]] = graph.constant dense<{{\[\[\[\[}}1, 2]]], {{\[\[\[}}3, 4]]], {{\[\[\[}}5, 6]]]]> : tensor<3x1x1x2xi8> : tensor<3x1x1x2x!quant.uniform<i8:f32:3, {1.0, 2.0:7}>>
// CHECK: graph.conv2d
// CHECK: graph.constant dense<{{\[\[\[\[}}0, 7]]], {{\[\[\[}}0, 7]]], {{\[\[\[}}0, 7]]]]> : tensor<3x1x1x2xi8>
// CHECK-NOT: graph.pad
func.func @main(%x: tensor<1x1x4x2xf32>) -> tensor<1x1x7x3xf32> {
  %q = graph.constant dense<[[[[1, 2]]], [[[3, 4]]], [[[5, 6]]]]> : tensor<3x1x1x2xi8> : tensor<3x1x1x2x!quant.uniform<i8:f32:3, {1.0, 2.0:7}>>
  %w = graph.dequantize %q : (tensor<3x1x1x2x!quant.uniform<i8:f32:3, {1.0, 2.0:7}>>) -> tensor<3x1x1x2xf32>
  %p = graph.pad constant %x {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 0, 0>, interior = array<i64: 0, 0, 1, 0>, value = 0.0 : f32} : (tensor<1x1x4x2xf32>) -> tensor<1x1x7x2xf32>
  %y = graph.conv2d %p, %w : (tensor<1x1x7x2xf32>, tensor<3x1x1x2xf32>) -> tensor<1x1x7x3xf32>
  func.return %y : tensor<1x1x7x3xf32>
}

// -----

// Scales of columns of the window do not match the columns of a phase: unchanged.
// CHECK-LABEL: func.func @main
// CHECK: graph.pad
func.func @main(%x: tensor<1x1x4x1xf32>) -> tensor<1x1x6x1xf32> {
  %q = graph.constant dense<[[[[1], [2]]]]> : tensor<1x1x2x1xi8> : tensor<1x1x2x1x!quant.uniform<i8:f32:2, {1.0, 2.0}>>
  %w = graph.dequantize %q : (tensor<1x1x2x1x!quant.uniform<i8:f32:2, {1.0, 2.0}>>) -> tensor<1x1x2x1xf32>
  %p = graph.pad constant %x {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 0, 0>, interior = array<i64: 0, 0, 1, 0>, value = 0.0 : f32} : (tensor<1x1x4x1xf32>) -> tensor<1x1x7x1xf32>
  %y = graph.conv2d %p, %w : (tensor<1x1x7x1xf32>, tensor<1x1x2x1xf32>) -> tensor<1x1x6x1xf32>
  func.return %y : tensor<1x1x6x1xf32>
}

// -----

// A window of three of 16 channels: the first phase has one weight, the second has two.
// CHECK-LABEL: func.func @main
// CHECK: %[[ONE:.*]] = graph.conv2d %{{[^ ]*}}, %{{[^ ]*}} : (tensor<1x1x4x1xf32>, tensor<16x1x1x1xf32>) -> tensor<1x1x4x16xf32>
// CHECK: %[[TWO:.*]] = graph.conv2d %{{.*}} {padding = array<i64: 0, 0, 0, 1>} : (tensor<1x1x4x1xf32>, tensor<16x1x2x1xf32>) -> tensor<1x1x4x16xf32>
// CHECK: graph.concat %[[ONE]], %[[TWO]] {axis = 0 : i64}{{.*}} -> tensor<2x1x4x16xf32>
// CHECK-NOT: graph.pad
func.func @main(%x: tensor<1x1x4x1xf32>) -> tensor<1x1x7x16xf32> {
  %w = graph.constant dense<1.0> : tensor<16x1x3x1xf32> : tensor<16x1x3x1xf32>
  %p = graph.pad constant %x {low = array<i64: 0, 0, 1, 0>, high = array<i64: 0, 0, 1, 0>, interior = array<i64: 0, 0, 1, 0>, value = 0.0 : f32} : (tensor<1x1x4x1xf32>) -> tensor<1x1x9x1xf32>
  %y = graph.conv2d %p, %w : (tensor<1x1x9x1xf32>, tensor<16x1x3x1xf32>) -> tensor<1x1x7x16xf32>
  func.return %y : tensor<1x1x7x16xf32>
}
