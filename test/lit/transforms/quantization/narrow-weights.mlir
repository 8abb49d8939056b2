// The scales of weights of few bits, and the integers of these weights.
// RUN: ceras-opt %s -p 'choose-row-exponents{factors=true},choose-weight-exponents' | filecheck %s --check-prefix=FACTORS
// RUN: ceras-opt %s -p 'choose-row-exponents{factors=true},choose-weight-exponents,quantize-graph' | filecheck %s --check-prefix=STORED
// RUN: ceras-opt %s -p 'choose-row-exponents,choose-weight-exponents' | filecheck %s --check-prefix=POWERS
// RUN: ceras-opt %s -p 'choose-weight-exponents,quantize-graph' | filecheck %s --check-prefix=SINGLE

!q = tensor<1x2xf32>
func.func @main(%x: !q {graph.exponent = -4 : i64}, %r: !q {graph.exponent = -2 : i64}) -> (!q, !q, !q) {
  %w = graph.constant dense<[[1.04, -0.3], [0.09, 0.06]]> : tensor<2x2xf32> : tensor<2x2xf32>
  // 1.04 is 6 steps of 2^-3 * 1.375, or 8 of 2^-3.
  // FACTORS: graph.matmul %x, %w {graph.weight_bits = 4 : i64, graph.exponent = -3 : i64, graph.weight_exponent = -3 : i64,
  // FACTORS-SAME: graph.row_exponents = array<i64: 0, -4>, graph.row_factors = array<f32: 1.375000e+00, 1.875000e+00>}
  // POWERS: graph.matmul %x, %w {graph.weight_bits = 4 : i64, graph.exponent = -3 : i64, graph.weight_exponent = -2 : i64, graph.row_exponents = array<i64: 0, -4>}
  // STORED: graph.constant dense<{{\[\[}}6, -2], [6, 4]]> : tensor<2x2xi4> : tensor<2x2x!quant.uniform<i4:f32:0, {0.171875, 0.0146484375}>>
  // STORED: graph.matmul {{.*}} {requant = #graph.requant<multiplier = [{{.*}}], shift = {{.*}}i4:f32
  // SINGLE: graph.constant dense<{{\[\[}}4, -1], [0, 0]]> : tensor<2x2xi4> : tensor<2x2x!quant.uniform<i4:f32, 0.25>>
  // SINGLE: graph.matmul {{.*}} {requant = #graph.requant<shift = 3, {{.*}}i4:f32
  %0 = graph.matmul %x, %w {graph.weight_bits = 4 : i64, graph.exponent = -3 : i64} : (!q, tensor<2x2xf32>) -> !q
  // A residual is added to sums with scales that are powers of two.
  // FACTORS: graph.matmul %x, %w residual %r
  // FACTORS-NOT: graph.row_factors
  %1 = graph.matmul %x, %w residual %r : !q {graph.weight_bits = 4 : i64, graph.exponent = -3 : i64} : (!q, tensor<2x2xf32>) -> !q
  // Weights of 8 bits have powers of two.
  // FACTORS: graph.matmul %x, %w {graph.exponent
  // FACTORS-NOT: graph.row_factors
  // FACTORS: return
  %2 = graph.matmul %x, %w {graph.exponent = -3 : i64} : (!q, tensor<2x2xf32>) -> !q
  func.return %0, %1, %2 : !q, !q, !q
}
