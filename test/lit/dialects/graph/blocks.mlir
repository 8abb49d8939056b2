// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x8xf32>, %i: tensor<3xi64>) -> (tensor<2x1xf32>, tensor<2x1xf32>, tensor<3x7xf32>, tensor<2x1xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  %p = graph.constant dense<[[15]]> : tensor<1x1xui8> : tensor<1x1xui8>
  %b = graph.constant dense<[1.0]> : tensor<1xf32> : tensor<1xf32>
  // CHECK: graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  // CHECK: graph.block_matmul %x, %w scales %s : tensor<1x1xf32> points %p : tensor<1x1xui8> bias %b : tensor<1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  %1 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> points %p : tensor<1x1xui8> bias %b : tensor<1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  // CHECK: graph.block_take %w[%i] scales %s : tensor<1x1xf32> points %p : tensor<1x1xui8> {bits = 4 : i64, block = 8 : i64} : (tensor<1x4xui8>, tensor<3xi64>) -> tensor<3x7xf32>
  %2 = graph.block_take %w[%i] scales %s : tensor<1x1xf32> points %p : tensor<1x1xui8> {bits = 4 : i64, block = 8 : i64} : (tensor<1x4xui8>, tensor<3xi64>) -> tensor<3x7xf32>
  // CHECK: %[[H:.*]] = graph.constant dense<5.000000e-01> : tensor<1x1xf16> : tensor<1x1xf16>
  // CHECK-NEXT: graph.block_matmul %x, %w scales %[[H]] : tensor<1x1xf16> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  %h = graph.constant dense<[[0.5]]> : tensor<1x1xf16> : tensor<1x1xf16>
  %3 = graph.block_matmul %x, %w scales %h : tensor<1x1xf16> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return %0, %1, %2, %3 : tensor<2x1xf32>, tensor<2x1xf32>, tensor<3x7xf32>, tensor<2x1xf32>
}
