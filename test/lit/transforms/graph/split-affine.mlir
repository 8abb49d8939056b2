// RUN: ceras-opt %s --split-affine | filecheck %s

// The epilogue keeps the core of its function.
// CHECK-LABEL: func.func @epilogue(
// CHECK:         %[[P:.*]] = graph.matmul {{.*}}activation = #graph.function<hard_swish>
// CHECK:         %[[M:.*]] = graph.binary mul %[[P]], %{{.*}} {graph.precision = "f32"}
// CHECK:         %[[A:.*]] = graph.binary add %[[M]], %{{.*}} {graph.precision = "f32"}
// CHECK-NEXT:    func.return %[[A]]
func.func @epilogue(%x: tensor<1x4xf32>, %w: tensor<2x4xf32>) -> tensor<1x2xf32> {
  %p = graph.matmul %x, %w {activation = #graph.function<hard_swish, scale 2.0, offset 0.25>, graph.precision = "f32"} : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  func.return %p : tensor<1x2xf32>
}

// Channels that stand for powers of two have the offset in theirs.
// CHECK-LABEL: func.func @channels(
// CHECK:         graph.unary <sigmoid> %{{.*}} {input_exponents = array<i64: 0, 1>, result_exponents = array<i64: 1, -2>}
// CHECK:         graph.constant dense<{{.*}}2.500000e-01, 2.000000e+00{{.*}}> : tensor<2xf32>
// CHECK:         graph.binary mul
// CHECK-NEXT:    graph.binary add
func.func @channels(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %y = graph.unary <sigmoid, scale 3.0, offset 0.5> %x {input_exponents = array<i64: 0, 1>, result_exponents = array<i64: 1, -2>} : tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}
