// RUN: ceras-opt %s --choose-weight-exponents | filecheck %s
// RUN: ceras-opt %s --choose-weight-exponents --choose-weight-exponents | filecheck %s

// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<1x4xf32>, %b: tensor<1xf32>) {
  // 1.0 is 64 steps of 2^-6; one step of 2^-7 more would be 128, and -128 is not used.
  // CHECK: graph.matmul %{{.*}} {graph.weight_exponent = -6 : i64}
  %u = graph.constant dense<[[1.0, -1.0, 0.5, 0.25]]> : tensor<1x4xf32> : tensor<1x4xf32>
  %0 = graph.matmul %x, %u : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
  // With -128, steps of 2^-7 would store both exactly.
  // CHECK: graph.matmul %{{.*}} {graph.weight_exponent = -6 : i64}
  %n = graph.constant dense<[[-1.0, 0.0078125, 0.0, 0.0]]> : tensor<1x4xf32> : tensor<1x4xf32>
  %7 = graph.matmul %x, %n : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
  // The least squared error clips 1.0 to 127 steps of 2^-7: the others gain more.
  // CHECK: graph.matmul %{{.*}} {graph.weight_exponent = -7 : i64}
  %v = graph.constant dense<[[1.0, 0.3046875, 0.1640625, 0.2578125]]> : tensor<1x4xf32> : tensor<1x4xf32>
  %1 = graph.matmul %x, %v : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
  // Nothing to store.
  // CHECK: graph.matmul %{{.*}} {graph.weight_exponent = -7 : i64}
  %w = graph.constant dense<0.0> : tensor<1x4xf32> : tensor<1x4xf32>
  %2 = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
  // Chosen already.
  // CHECK: graph.matmul %{{.*}} {graph.weight_exponent = 3 : i64}
  %3 = graph.matmul %x, %u {graph.weight_exponent = 3 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
  // Weights that are computed have the exponent of their value; a computed bias, or the
  // wish, keeps the operation float.
  // CHECK-NOT: graph.weight_exponent
  %4 = graph.matmul %x, %x : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
  %5 = graph.matmul %x, %u bias %b : tensor<1xf32> : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
  %6 = graph.matmul %x, %u {graph.precision = "f32"} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
  func.return
}
