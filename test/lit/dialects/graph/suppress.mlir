// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @main(
func.func @main(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>) -> tensor<6x3xi64> {
  // CHECK: graph.suppress %b, %s {most = 3 : i64, overlap = 5.000000e-01 : f32, least = 2.500000e-01 : f32} : (tensor<1x6x4xf32>, tensor<1x2x6xf32>) -> tensor<6x3xi64>
  %0 = graph.suppress %b, %s {most = 3 : i64, overlap = 0.5 : f32, least = 0.25 : f32} : (tensor<1x6x4xf32>, tensor<1x2x6xf32>) -> tensor<6x3xi64>
  func.return %0 : tensor<6x3xi64>
}
