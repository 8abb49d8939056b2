// RUN: ceras-opt %s --fuse-windows="rules=strides" --split-input-file | filecheck %s
// RUN: ceras-opt %s --fuse-windows="rules=strides" --fuse-windows="rules=strides" --split-input-file | filecheck %s
// RUN: ceras-opt %s --fuse --split-input-file | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = graph.reshape %{{.*}} : (tensor<1x1x6x1xf32>) -> tensor<1x1x3x2xf32>
// CHECK: %[[W:.*]] = graph.constant dense<{{\[\[\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]]]> : tensor<1x1x2x2xf32>
// CHECK: graph.conv2d %[[X]], %[[W]] : (tensor<1x1x3x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x1xf32>
func.func @main(%x: tensor<1x1x6x1xf32>) -> tensor<1x1x2x1xf32> {
  %w = graph.constant dense<[[[[1.0], [2.0], [3.0], [4.0]]]]> : tensor<1x1x4x1xf32> : tensor<1x1x4x1xf32>
  %y = graph.conv2d %x, %w {strides = array<i64: 1, 2>} : (tensor<1x1x6x1xf32>, tensor<1x1x4x1xf32>) -> tensor<1x1x2x1xf32>
  func.return %y : tensor<1x1x2x1xf32>
}

// -----

// Padding, a width or a window that the stride does not divide, and channels enough.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.reshape
func.func @main(%x: tensor<1x1x6x1xf32>, %o: tensor<1x1x7x1xf32>, %m: tensor<1x1x6x4xf32>) -> (tensor<1x1x3x1xf32>, tensor<1x1x2x1xf32>, tensor<1x1x2x1xf32>, tensor<1x1x2x1xf32>) {
  %w = graph.constant dense<1.0> : tensor<1x1x4x1xf32> : tensor<1x1x4x1xf32>
  %v = graph.constant dense<1.0> : tensor<1x1x3x1xf32> : tensor<1x1x3x1xf32>
  %u = graph.constant dense<1.0> : tensor<1x1x4x4xf32> : tensor<1x1x4x4xf32>
  %a = graph.conv2d %x, %w {strides = array<i64: 1, 2>, padding = array<i64: 0, 1, 0, 1>} : (tensor<1x1x6x1xf32>, tensor<1x1x4x1xf32>) -> tensor<1x1x3x1xf32>
  %b = graph.conv2d %o, %w {strides = array<i64: 1, 2>} : (tensor<1x1x7x1xf32>, tensor<1x1x4x1xf32>) -> tensor<1x1x2x1xf32>
  %c = graph.conv2d %x, %v {strides = array<i64: 1, 2>} : (tensor<1x1x6x1xf32>, tensor<1x1x3x1xf32>) -> tensor<1x1x2x1xf32>
  %d = graph.conv2d %m, %u {strides = array<i64: 1, 2>} : (tensor<1x1x6x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x1x2x1xf32>
  func.return %a, %b, %c, %d : tensor<1x1x3x1xf32>, tensor<1x1x2x1xf32>, tensor<1x1x2x1xf32>, tensor<1x1x2x1xf32>
}
