// RUN: ceras-opt %s --choose-row-exponents --choose-weight-exponents | filecheck %s
// RUN: ceras-opt %s -p 'choose-row-exponents{residual-spread=6},choose-weight-exponents' | filecheck %s --check-prefixes=CHECK,SPREAD
// RUN: ceras-opt %s -p 'choose-row-exponents{costly=true},choose-weight-exponents' | filecheck %s --check-prefix=COSTLY
// RUN: not ceras-opt %s -p 'choose-row-exponents{residual-spread=11}' 2>&1 | filecheck %s --check-prefix=BAD

// BAD: residual_spread must be in [0, 10], got 11

// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<1x2xf32>) {
  // The second row is 2^3 times as fine, the third at most 2^10; a row of zeros takes any step.
  // CHECK: graph.matmul %{{.*}} {graph.weight_exponent = -6 : i64, graph.row_exponents = array<i64: 0, -3, -10, 0>}
  %u = graph.constant dense<[[1.0, -1.0], [0.125, 0.125], [0.0001, 0.0], [0.0, 0.0]]> : tensor<4x2xf32> : tensor<4x2xf32>
  %0 = graph.matmul %x, %u : (tensor<1x2xf32>, tensor<4x2xf32>) -> tensor<1x4xf32>
  // With -128, the second row would have steps of 2^-7.
  // CHECK: graph.matmul %{{.*}} {graph.weight_exponent = -5 : i64, graph.row_exponents = array<i64: 0, -1>}
  %n = graph.constant dense<[[2.0, 2.0], [-1.0, 0.0078125]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %2 = graph.matmul %x, %n : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // Scales per channel would reduce the squared error only slightly.
  // COSTLY: graph.matmul %{{.*}} {graph.weight_exponent = -6 : i64, graph.row_exponents
  // COSTLY: graph.matmul %{{.*}} {graph.weight_exponent = -5 : i64} : (tensor<1x2xf32>, tensor<2x2xf32>)
  // All rows alike.
  // CHECK: graph.matmul %{{.*}} {graph.weight_exponent = -6 : i64}
  %v = graph.constant dense<[[1.0, -1.0], [1.0, 0.5]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %1 = graph.matmul %x, %v : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // A residual whose shifts may differ by so much.
  // SPREAD: graph.matmul %{{.*}} residual {{.*}} {graph.weight_exponent = -6 : i64, graph.row_exponents = array<i64: 0, -3, -6, 0>}
  %3 = graph.matmul %x, %u residual %0 : tensor<1x4xf32> : (tensor<1x2xf32>, tensor<4x2xf32>) -> tensor<1x4xf32>
  func.return
}
