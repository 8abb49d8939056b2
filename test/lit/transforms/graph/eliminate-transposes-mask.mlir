// RUN: ceras-opt %s --eliminate-transposes | filecheck %s

// Columns of the weights move, and the mask with them: the last of [c, h, w] is the last of
// [h, w, c]; the first column of channel 1 was the third, and is the second.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x1x2x2xf32>) -> tensor<1x1xf32> {
  // CHECK: graph.constant dense<{{\[\[}}0.000000e+00, 5.000000e+00, 0.000000e+00, 7.000000e+00]]>
  %w = graph.constant dense<[[0.0, 0.0, 5.0, 7.0]]> : tensor<1x4xf32> : tensor<1x4xf32>
  %t = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x1x2x2xf32>) -> tensor<1x2x1x2xf32>
  %f = graph.reshape %t : (tensor<1x2x1x2xf32>) -> tensor<1x4xf32>
  // CHECK: graph.matmul {{.*}} {sparse.mask = #sparse.mask<2 of [1, 4], "0x0A">}
  %0 = graph.matmul %f, %w {sparse.mask = #sparse.mask<2 of [1, 4], "0x0C">} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
  func.return %0 : tensor<1x1xf32>
}
