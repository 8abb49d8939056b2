// RUN: ceras-opt %s --keep-in-float="rules=pixels" --split-input-file | filecheck %s

// What is between bytes and the first layer; the function behind the layer is no part of it.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.cast {{.*}}graph.precision = "f32", graph.float_reason = "computes a pixel
// CHECK:       graph.binary sub {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.transpose %{{[0-9]*}} {permutation
// CHECK-NEXT:  graph.binary mul {{.*}}graph.precision = "f32"
// CHECK:       graph.matmul
// CHECK-NOT:   graph.precision
func.func @main(%x: tensor<3x2xui8>) -> tensor<2x1xf32> {
  %m = graph.constant dense<[[3.0], [4.0], [5.0]]> : tensor<3x1xf32> : tensor<3x1xf32>
  %s = graph.constant dense<0.5> : tensor<f32> : tensor<f32>
  %w = graph.constant dense<1.0> : tensor<1x3xf32> : tensor<1x3xf32>
  %0 = graph.cast %x : (tensor<3x2xui8>) -> tensor<3x2xf32>
  %1 = graph.binary sub %0, %m : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  %2 = graph.transpose %1 {permutation = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %3 = graph.binary mul %2, %s : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %4 = graph.matmul %3, %w : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x1xf32>
  %5 = graph.unary <relu> %4 : tensor<2x1xf32>
  func.return %5 : tensor<2x1xf32>
}

// -----

// No layer reads it; floats and other integers are no pixels.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:   graph.precision
func.func @main(%x: tensor<1x3xui8>, %y: tensor<1x3xi32>) -> (tensor<1x3xf32>, tensor<1x1xf32>) {
  %w = graph.constant dense<1.0> : tensor<1x3xf32> : tensor<1x3xf32>
  %0 = graph.cast %x : (tensor<1x3xui8>) -> tensor<1x3xf32>
  %1 = graph.unary <relu> %0 : tensor<1x3xf32>
  %2 = graph.cast %y : (tensor<1x3xi32>) -> tensor<1x3xf32>
  %3 = graph.matmul %2, %w : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x1xf32>
  func.return %1, %3 : tensor<1x3xf32>, tensor<1x1xf32>
}

// -----

// Every pixel has a factor of its own: that is more than a table per channel.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.cast {{.*}}graph.precision = "f32"
// CHECK-NOT:   graph.precision
func.func @main(%x: tensor<2x3xui8>) -> (tensor<2x1xf32>, tensor<2x1xf32>) {
  %w = graph.constant dense<1.0> : tensor<1x3xf32> : tensor<1x3xf32>
  %f = graph.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32> : tensor<2x3xf32>
  %0 = graph.cast %x : (tensor<2x3xui8>) -> tensor<2x3xf32>
  %1 = graph.binary mul %0, %f : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = graph.matmul %0, %w : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x1xf32>
  %3 = graph.matmul %1, %w : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x1xf32>
  func.return %2, %3 : tensor<2x1xf32>, tensor<2x1xf32>
}
