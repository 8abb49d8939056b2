// RUN: ceras-opt %s --keep-heads-apart | filecheck %s
// RUN: ceras-opt %s --keep-heads-apart --quantize | filecheck %s --check-prefix=INT8

!m = tensor<1x2xf32>

// Boxes up to 400 and scores up to 1: at one scale all scores would be 0.
// CHECK-LABEL: func.func @main(
// INT8-LABEL: func.func @main(
func.func @main(%x: !m {graph.exponent = -7 : i64}) -> (tensor<4x1xf32>, !m) {
  %w = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  // INT8: graph.matmul {{.*}} -> tensor<1x2x!quant.uniform<i8:f32, 4.0>>
  %0 = graph.matmul %x, %w {graph.exponent = 2 : i64} : (!m, tensor<2x2xf32>) -> !m
  // INT8: graph.matmul {{.*}} -> tensor<1x2x!quant.uniform<i8:f32, 0.0078125>>
  %1 = graph.matmul %x, %w {graph.exponent = -7 : i64} : (!m, tensor<2x2xf32>) -> !m
  // CHECK: graph.concat {{.*}}graph.precision = "f32"
  // CHECK-NEXT: graph.reshape {{.*}}graph.precision = "f32"
  // INT8: graph.concat {{.*}} -> tensor<1x4xf32>
  %2 = graph.concat %0, %1 {axis = 1 : i64, graph.exponent = 2 : i64} : (!m, !m) -> tensor<1x4xf32>
  %3 = graph.reshape %2 : (tensor<1x4xf32>) -> tensor<4x1xf32>
  // Where a product follows, one scale it is.
  // CHECK: graph.concat
  // CHECK-NOT: graph.precision
  %4 = graph.concat %0, %1 {axis = 0 : i64, graph.exponent = 2 : i64} : (!m, !m) -> tensor<2x2xf32>
  %5 = graph.matmul %x, %4 {graph.exponent = 2 : i64} : (!m, tensor<2x2xf32>) -> !m
  func.return %3, %5 : tensor<4x1xf32>, !m
}
