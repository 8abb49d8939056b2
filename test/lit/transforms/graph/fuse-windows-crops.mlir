// RUN: ceras-opt %s --fuse-windows="rules=crops" --split-input-file | filecheck %s

// A causal convolution along width: the last two columns go, and the padding behind.
func.func @main(%x: tensor<1x1x5x1xf32>, %w: tensor<1x1x3x1xf32>) -> tensor<1x1x5x1xf32> {
  %c = graph.conv2d %x, %w {padding = array<i64: 0, 2, 0, 2>} : (tensor<1x1x5x1xf32>, tensor<1x1x3x1xf32>) -> tensor<1x1x7x1xf32>
  %y = graph.slice %c {starts = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<1x1x7x1xf32>) -> tensor<1x1x5x1xf32>
  func.return %y : tensor<1x1x5x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT:  graph.conv2d %x, %w {padding = array<i64: 0, 2, 0, 0>} : (tensor<1x1x5x1xf32>, tensor<1x1x3x1xf32>) -> tensor<1x1x5x1xf32>
// CHECK-NEXT:  func.return

// -----

// The first row at stride 2 is two rows of padding.
func.func @main(%x: tensor<1x4x4x1xf32>, %w: tensor<1x3x1x1xf32>) -> tensor<1x2x2x1xf32> {
  %c = graph.conv2d %x, %w {padding = array<i64: 2, 0, 1, 0>, strides = array<i64: 2, 2>} : (tensor<1x4x4x1xf32>, tensor<1x3x1x1xf32>) -> tensor<1x3x2x1xf32>
  %y = graph.slice %c {starts = array<i64: 0, 1, 0, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<1x3x2x1xf32>) -> tensor<1x2x2x1xf32>
  func.return %y : tensor<1x2x2x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT:  graph.conv2d %x, %w {{{.*}}padding = array<i64: 0, 0, 1, 0>{{.*}}} : (tensor<1x4x4x1xf32>, tensor<1x3x1x1xf32>) -> tensor<1x2x2x1xf32>

// -----

// More is cut off than padding has made; every other column; channels.
func.func @main(%x: tensor<1x1x5x2xf32>, %w: tensor<2x1x1x2xf32>) -> (tensor<1x1x4x2xf32>, tensor<1x1x3x2xf32>, tensor<1x1x5x1xf32>) {
  %c = graph.conv2d %x, %w : (tensor<1x1x5x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x1x5x2xf32>
  %y = graph.slice %c {starts = array<i64: 0, 0, 1, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<1x1x5x2xf32>) -> tensor<1x1x4x2xf32>
  %d = graph.conv2d %x, %w : (tensor<1x1x5x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x1x5x2xf32>
  %z = graph.slice %d {starts = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 2, 1>} : (tensor<1x1x5x2xf32>) -> tensor<1x1x3x2xf32>
  %e = graph.conv2d %x, %w : (tensor<1x1x5x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x1x5x2xf32>
  %v = graph.slice %e {starts = array<i64: 0, 0, 0, 1>, strides = array<i64: 1, 1, 1, 1>} : (tensor<1x1x5x2xf32>) -> tensor<1x1x5x1xf32>
  func.return %y, %z, %v : tensor<1x1x4x2xf32>, tensor<1x1x3x2xf32>, tensor<1x1x5x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK:       graph.slice
// CHECK:       graph.slice
// CHECK:       graph.slice
