// RUN: ceras-opt %s --keep-in-float="rules=factors" | filecheck %s
// RUN: ceras-opt %s --keep-in-float="rules=factors besides=scaled" | filecheck %s --check-prefix=BESIDES
// RUN: ceras-opt %s --quantize=recipe=none | filecheck %s --check-prefix=INT

// The second factor is that of a channel without variance. In one scale of int8 the others would
// be 0 or 2.5.
!m = tensor<1x4xf32>
// BESIDES-NOT: graph.precision
func.func @main(%x: !m {graph.exponent = -7 : i64}) -> !m {
  %w = graph.constant dense<0.25> : tensor<4x4xf32> : tensor<4x4xf32>
  // INT: graph.matmul
  %0 = graph.matmul %x, %w {activation = #graph.function<relu>, graph.exponent = -7 : i64} : (!m, tensor<4x4xf32>) -> !m
  %wide = graph.constant dense<[1.0, 316.0, -1.5, 0.5]> : tensor<4xf32> : tensor<4xf32>
  // CHECK: graph.binary mul {{.*}}graph.precision = "f32", graph.float_reason = "multiplies by constants so different
  // INT: graph.binary mul {{.*}} -> tensor<1x4xf32>
  %1 = graph.binary mul %0, %wide {graph.exponent = -6 : i64} : (!m, tensor<4xf32>) -> !m loc("scaled")
  // CHECK: graph.binary mul
  // CHECK-NOT: graph.precision
  // CHECK: func.return
  // INT: graph.binary mul {{.*}} -> tensor<1x4x!quant
  %near = graph.constant dense<[1.0, 15.0, 0.0, 1.0]> : tensor<4xf32> : tensor<4xf32>
  %2 = graph.binary mul %1, %near {graph.exponent = -6 : i64} : (!m, tensor<4xf32>) -> !m
  %3 = graph.matmul %2, %w {graph.exponent = -4 : i64} : (!m, tensor<4x4xf32>) -> !m
  func.return %3 : !m
}
