// RUN: ceras-opt %s --fold-affine="rules=batch-norms" --split-input-file | filecheck %s

// Product, then sum: (x * 2 + 1) * 3 + 10 is x * 6 + 13, and the activation stays behind.
// CHECK-LABEL: func.func @conv(
// CHECK:         %[[W:.*]] = graph.constant dense<6.{{.*}}> : tensor<1x1x1x1xf32>
// CHECK-NEXT:    %[[B:.*]] = graph.constant dense<1.3{{.*}}> : tensor<1xf32>
// CHECK-NEXT:    %[[Y:.*]] = graph.conv2d %{{.*}}, %[[W]] bias %[[B]] : tensor<1xf32> {strides = array<i64: 2, 2>, padding = array<i64: 1, 0, 0, 0>, activation = #graph.function<relu>}
// CHECK-NEXT:    func.return %[[Y]]
func.func @conv(%x: tensor<1x4x5x1xf32>) -> tensor<1x3x3x1xf32> {
  %w = graph.constant dense<2.0> : tensor<1x1x1x1xf32> : tensor<1x1x1x1xf32>
  %b = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %s = graph.constant dense<3.0> : tensor<1xf32> : tensor<1xf32>
  %t = graph.constant dense<10.0> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.conv2d %x, %w bias %b : tensor<1xf32> {strides = array<i64: 2, 2>, padding = array<i64: 1, 0, 0, 0>} : (tensor<1x4x5x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x3x3x1xf32>
  %1 = graph.binary mul %0, %s : (tensor<1x3x3x1xf32>, tensor<1xf32>) -> tensor<1x3x3x1xf32>
  %2 = graph.binary add %1, %t {activation = #graph.function<relu>} : (tensor<1x3x3x1xf32>, tensor<1xf32>) -> tensor<1x3x3x1xf32>
  func.return %2 : tensor<1x3x3x1xf32>
}

// -----

// One factor per output channel, the first dimension of the weights; 7 - y negates them.
// CHECK-LABEL: func.func @matmul(
// CHECK:         %[[W:.*]] = graph.constant dense<{{.*}}-2.{{.*}}-2.{{.*}}-3.{{.*}}-3.{{.*}}> : tensor<2x2xf32>
// CHECK-NEXT:    %[[B:.*]] = graph.constant dense<7.{{.*}}> : tensor<2xf32>
// CHECK-NEXT:    graph.matmul %{{.*}}, %[[W]] bias %[[B]]
func.func @matmul(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = graph.constant dense<1.0> : tensor<2x2xf32> : tensor<2x2xf32>
  %s = graph.constant dense<[2.0, 3.0]> : tensor<2xf32> : tensor<2xf32>
  %t = graph.constant dense<7.0> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = graph.binary mul %s, %0 : (tensor<2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %2 = graph.binary sub %t, %1 : (tensor<1xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  func.return %2 : tensor<1x2xf32>
}

// -----

// A second reader needs the value before the product.
// CHECK-LABEL: func.func @two_readers(
// CHECK:         graph.binary mul
func.func @two_readers(%x: tensor<1x1xf32>) -> (tensor<1x1xf32>, tensor<1x1xf32>) {
  %w = graph.constant dense<2.0> : tensor<1x1xf32> : tensor<1x1xf32>
  %0 = graph.matmul %x, %w : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %1 = graph.binary mul %0, %w : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  func.return %0, %1 : tensor<1x1xf32>, tensor<1x1xf32>
}

// -----

// The activation comes before the product.
// CHECK-LABEL: func.func @activation(
// CHECK:         graph.binary mul
func.func @activation(%x: tensor<1x1xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<2.0> : tensor<1x1xf32> : tensor<1x1xf32>
  %0 = graph.matmul %x, %w {activation = #graph.function<relu>} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %1 = graph.binary mul %0, %w : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  func.return %1 : tensor<1x1xf32>
}

// -----

// The constant varies within a channel, and the other operand is no constant at all.
// CHECK-LABEL: func.func @not_per_channel(
// CHECK:         graph.binary add
// CHECK:         graph.binary mul
func.func @not_per_channel(%x: tensor<2x1xf32>) -> tensor<2x1xf32> {
  %w = graph.constant dense<2.0> : tensor<1x1xf32> : tensor<1x1xf32>
  %t = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  %0 = graph.matmul %x, %w : (tensor<2x1xf32>, tensor<1x1xf32>) -> tensor<2x1xf32>
  %1 = graph.binary add %0, %t : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %2 = graph.matmul %1, %w : (tensor<2x1xf32>, tensor<1x1xf32>) -> tensor<2x1xf32>
  %3 = graph.binary mul %2, %x : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  func.return %3 : tensor<2x1xf32>
}

// -----

// Weights that are computed cannot be scaled; a sum needs only the bias.
// CHECK-LABEL: func.func @computed_weights(
// CHECK:         %[[Y:.*]] = graph.matmul %{{.*}}, %{{.*}} bias
// CHECK-NEXT:    graph.constant
// CHECK-NEXT:    graph.binary mul %[[Y]]
func.func @computed_weights(%x: tensor<1x2xf32>, %w: tensor<3x2xf32>) -> tensor<1x3xf32> {
  %t = graph.constant dense<1.0> : tensor<3xf32> : tensor<3xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<3x2xf32>) -> tensor<1x3xf32>
  %1 = graph.binary add %0, %t : (tensor<1x3xf32>, tensor<3xf32>) -> tensor<1x3xf32>
  %s = graph.constant dense<2.0> : tensor<3xf32> : tensor<3xf32>
  %2 = graph.binary mul %1, %s : (tensor<1x3xf32>, tensor<3xf32>) -> tensor<1x3xf32>
  func.return %2 : tensor<1x3xf32>
}

// -----

// A maximum is not linear.
// CHECK-LABEL: func.func @maximum
// CHECK:         graph.conv2d
// CHECK:         graph.binary max
func.func @maximum(%x: tensor<1x4x4x1xf32>) -> tensor<1x4x4x1xf32> {
  %w = graph.constant dense<2.0> : tensor<1x1x1x1xf32> : tensor<1x1x1x1xf32>
  %c = graph.constant dense<3.0> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.conv2d %x, %w : (tensor<1x4x4x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x4x4x1xf32>
  %1 = graph.binary max %0, %c : (tensor<1x4x4x1xf32>, tensor<1xf32>) -> tensor<1x4x4x1xf32>
  func.return %1 : tensor<1x4x4x1xf32>
}

// -----

// The order of a sum stays stated: bodies of loops are held to it bit for bit.
// CHECK-LABEL: func.func @ordered
// CHECK:         graph.matmul %{{.*}}, %{{.*}} bias %{{.*}} {ordered}
// CHECK-NEXT:    func.return
func.func @ordered(%x: tensor<1x2xf32>) -> tensor<1x3xf32> {
  %w = graph.constant dense<2.0> : tensor<3x2xf32> : tensor<3x2xf32>
  %t = graph.constant dense<1.0> : tensor<3xf32> : tensor<3xf32>
  %0 = graph.matmul %x, %w {ordered} : (tensor<1x2xf32>, tensor<3x2xf32>) -> tensor<1x3xf32>
  %1 = graph.binary sub %0, %t : (tensor<1x3xf32>, tensor<3xf32>) -> tensor<1x3xf32>
  func.return %1 : tensor<1x3xf32>
}

// -----

// A depthwise convolution of one pixel is a batch normalization too; one with a stride is not.
func.func @main(%x: tensor<1x4x4x2xf32>) -> (tensor<1x4x4x2xf32>, tensor<1x2x2x2xf32>) {
  %w = graph.constant dense<[[[[1.0, 2.0]]], [[[3.0, 4.0]]]]> : tensor<2x1x1x2xf32> : tensor<2x1x1x2xf32>
  %b = graph.constant dense<[1.0, 1.0]> : tensor<2xf32> : tensor<2xf32>
  %k = graph.constant dense<[[[[2.0]]], [[[0.5]]]]> : tensor<2x1x1x1xf32> : tensor<2x1x1x1xf32>
  %c = graph.conv2d %x, %w bias %b : tensor<2xf32> : (tensor<1x4x4x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x4x4x2xf32>
  %y = graph.conv2d %c, %k bias %b : tensor<2xf32> {groups = 2 : i64, activation = #graph.function<relu>} : (tensor<1x4x4x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x4x4x2xf32>
  %d = graph.conv2d %x, %w : (tensor<1x4x4x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x4x4x2xf32>
  %z = graph.conv2d %d, %k {groups = 2 : i64, strides = array<i64: 2, 2>} : (tensor<1x4x4x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  func.return %y, %z : tensor<1x4x4x2xf32>, tensor<1x2x2x2xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-DAG:   dense<{{\[\[\[\[}}2.000000e+00, 4.000000e+00]]], {{\[\[\[}}1.500000e+00, 2.000000e+00]]]]>
// CHECK-DAG:   dense<[3.000000e+00, 1.500000e+00]>
// CHECK:       graph.conv2d %x, %{{.*}} bias %{{.*}} : tensor<2xf32> {activation = #graph.function<relu>}
// CHECK:       graph.conv2d %x
// CHECK:       graph.conv2d %{{.*}} {groups = 2 : i64, strides = array<i64: 2, 2>}
