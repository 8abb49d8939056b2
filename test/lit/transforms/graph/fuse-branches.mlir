// RUN: ceras-opt %s --fuse-branches --split-input-file | filecheck %s
// RUN: ceras-opt %s --fuse-branches --fuse-branches --split-input-file | filecheck %s

// 1x1 lies in the middle of 3x3; biases add, and what the sum has becomes the convolution's.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[W:.*]] = graph.constant dense<{{\[\[\[\[}}1.000000e+00], [1.000000e+00], [1.000000e+00]], {{\[\[}}1.000000e+00], [3.000000e+00], [1.000000e+00]], {{\[\[}}1.000000e+00], [1.000000e+00], [1.000000e+00]]]]>
// CHECK-DAG: %[[B:.*]] = graph.constant dense<5.000000e+00> : tensor<1xf32>
// CHECK: %[[Y:.*]] = graph.conv2d %{{.*}}, %[[W]] bias %[[B]] : tensor<1xf32> {strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, activation = #graph.function<relu>}
// CHECK-NEXT: func.return %[[Y]]
func.func @main(%x: tensor<1x5x5x1xf32>) -> tensor<1x3x3x1xf32> {
  %w = graph.constant dense<1.0> : tensor<1x3x3x1xf32> : tensor<1x3x3x1xf32>
  %v = graph.constant dense<2.0> : tensor<1x1x1x1xf32> : tensor<1x1x1x1xf32>
  %b = graph.constant dense<5.0> : tensor<1xf32> : tensor<1xf32>
  %p = graph.conv2d %x, %v bias %b : tensor<1xf32> {strides = array<i64: 2, 2>} : (tensor<1x5x5x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x3x3x1xf32>
  %q = graph.conv2d %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>} : (tensor<1x5x5x1xf32>, tensor<1x3x3x1xf32>) -> tensor<1x3x3x1xf32>
  %y = graph.binary add %p, %q {activation = #graph.function<relu>} : (tensor<1x3x3x1xf32>, tensor<1x3x3x1xf32>) -> tensor<1x3x3x1xf32>
  func.return %y : tensor<1x3x3x1xf32>
}

// -----

// A factor for each channel is the diagonal of a convolution that reads all channels. Two of three addends become one
// first. To a window of one element its dilation does not matter.
// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = graph.constant dense<{{\[\[\[\[}}1.600000e+01, 1.000000e+00]], {{\[\[}}1.000000e+00, 1.000000e+00]]], {{\[\[\[}}1.000000e+00, 1.700000e+01]], {{\[\[}}1.000000e+00, 1.000000e+00]]]]>
// CHECK: %[[Y:.*]] = graph.conv2d %{{.*}}, %[[W]] bias %{{.*}} : tensor<2xf32> {dilations = array<i64: 2, 1>, padding = array<i64: 0, 0, 2, 0>}
// CHECK-NEXT: func.return %[[Y]]
func.func @main(%x: tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32> {
  %w = graph.constant dense<1.0> : tensor<2x2x1x2xf32> : tensor<2x2x1x2xf32>
  %d = graph.constant dense<[[[[7.0]]], [[[8.0]]]]> : tensor<2x1x1x1xf32> : tensor<2x1x1x1xf32>
  %e = graph.constant dense<8.0> : tensor<2x1x1x1xf32> : tensor<2x1x1x1xf32>
  %p = graph.conv2d %x, %d {groups = 2 : i64} : (tensor<1x3x3x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x3x3x2xf32>
  %q = graph.conv2d %x, %e {groups = 2 : i64, dilations = array<i64: 3, 3>} : (tensor<1x3x3x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x3x3x2xf32>
  %r = graph.conv2d %x, %w {dilations = array<i64: 2, 1>, padding = array<i64: 0, 0, 2, 0>} : (tensor<1x3x3x2xf32>, tensor<2x2x1x2xf32>) -> tensor<1x3x3x2xf32>
  %s = graph.binary add %p, %q : (tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32>
  %y = graph.binary add %s, %r : (tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32>
  func.return %y : tensor<1x3x3x2xf32>
}

// -----

// These stay: two inputs, neither window over the other, taps at other distances or between, fewer channels in the larger
// window, other strides, a function in between, computed weights, and a second reader.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-9: graph.binary add
func.func @main(%x: tensor<1x6x6x2xf32>, %z: tensor<1x6x6x2xf32>, %k: tensor<2x1x1x2xf32>) -> (tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>) {
  %w = graph.constant dense<1.0> : tensor<2x3x3x2xf32> : tensor<2x3x3x2xf32>
  %d = graph.constant dense<1.0> : tensor<2x3x3x1xf32> : tensor<2x3x3x1xf32>
  %h = graph.constant dense<1.0> : tensor<2x1x3x2xf32> : tensor<2x1x3x2xf32>
  %v = graph.constant dense<1.0> : tensor<2x3x1x2xf32> : tensor<2x3x1x2xf32>
  %o = graph.constant dense<1.0> : tensor<2x1x1x2xf32> : tensor<2x1x1x2xf32>
  %inputs0 = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>} : (tensor<1x6x6x2xf32>, tensor<2x3x3x2xf32>) -> tensor<1x6x6x2xf32>
  %inputs1 = graph.conv2d %z, %o : (tensor<1x6x6x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x6x6x2xf32>
  %inputs = graph.binary add %inputs0, %inputs1 : (tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>) -> tensor<1x6x6x2xf32>
  %windows0 = graph.conv2d %x, %h {padding = array<i64: 0, 1, 0, 1>} : (tensor<1x6x6x2xf32>, tensor<2x1x3x2xf32>) -> tensor<1x6x6x2xf32>
  %windows1 = graph.conv2d %x, %v {padding = array<i64: 1, 0, 1, 0>} : (tensor<1x6x6x2xf32>, tensor<2x3x1x2xf32>) -> tensor<1x6x6x2xf32>
  %windows = graph.binary add %windows0, %windows1 : (tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>) -> tensor<1x6x6x2xf32>
  %distances0 = graph.conv2d %x, %w {padding = array<i64: 2, 2, 2, 2>, dilations = array<i64: 2, 2>} : (tensor<1x6x6x2xf32>, tensor<2x3x3x2xf32>) -> tensor<1x6x6x2xf32>
  %distances1 = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>} : (tensor<1x6x6x2xf32>, tensor<2x3x3x2xf32>) -> tensor<1x6x6x2xf32>
  %distances = graph.binary add %distances0, %distances1 : (tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>) -> tensor<1x6x6x2xf32>
  %between0 = graph.conv2d %x, %w {padding = array<i64: 2, 2, 2, 2>, dilations = array<i64: 2, 2>} : (tensor<1x6x6x2xf32>, tensor<2x3x3x2xf32>) -> tensor<1x6x6x2xf32>
  %between1 = graph.conv2d %x, %v {padding = array<i64: 1, 0, 1, 0>} : (tensor<1x6x6x2xf32>, tensor<2x3x1x2xf32>) -> tensor<1x6x6x2xf32>
  %between = graph.binary add %between0, %between1 : (tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>) -> tensor<1x6x6x2xf32>
  %channels0 = graph.conv2d %x, %d {padding = array<i64: 1, 1, 1, 1>, groups = 2 : i64} : (tensor<1x6x6x2xf32>, tensor<2x3x3x1xf32>) -> tensor<1x6x6x2xf32>
  %channels1 = graph.conv2d %x, %o : (tensor<1x6x6x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x6x6x2xf32>
  %channels = graph.binary add %channels0, %channels1 : (tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>) -> tensor<1x6x6x2xf32>
  %strides0 = graph.conv2d %x, %w {strides = array<i64: 2, 1>, padding = array<i64: 3, 1, 4, 1>} : (tensor<1x6x6x2xf32>, tensor<2x3x3x2xf32>) -> tensor<1x6x6x2xf32>
  %strides1 = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>} : (tensor<1x6x6x2xf32>, tensor<2x3x3x2xf32>) -> tensor<1x6x6x2xf32>
  %strides = graph.binary add %strides0, %strides1 : (tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>) -> tensor<1x6x6x2xf32>
  %function0 = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>, activation = #graph.function<relu>} : (tensor<1x6x6x2xf32>, tensor<2x3x3x2xf32>) -> tensor<1x6x6x2xf32>
  %function1 = graph.conv2d %x, %o : (tensor<1x6x6x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x6x6x2xf32>
  %function = graph.binary add %function0, %function1 : (tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>) -> tensor<1x6x6x2xf32>
  %computed0 = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>} : (tensor<1x6x6x2xf32>, tensor<2x3x3x2xf32>) -> tensor<1x6x6x2xf32>
  %computed1 = graph.conv2d %x, %k : (tensor<1x6x6x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x6x6x2xf32>
  %computed = graph.binary add %computed0, %computed1 : (tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>) -> tensor<1x6x6x2xf32>
  %readers0 = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>} : (tensor<1x6x6x2xf32>, tensor<2x3x3x2xf32>) -> tensor<1x6x6x2xf32>
  %readers1 = graph.conv2d %x, %o : (tensor<1x6x6x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x6x6x2xf32>
  %readers = graph.binary add %readers0, %readers1 : (tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>) -> tensor<1x6x6x2xf32>
  func.return %inputs, %windows, %distances, %between, %channels, %strides, %function, %computed, %readers, %readers1 : tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>, tensor<1x6x6x2xf32>
}
