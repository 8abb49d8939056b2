// RUN: ceras-opt %s --unfuse-residual --split-input-file --print-debuginfo | filecheck %s

// The accumulator has steps of 2^-7, the residual of 2^-8: no left shift aligns them. The
// product alone was at most 6 + 0.5 and at least 0 - 0.75, where relu hides what is less.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[P:.*]] = graph.matmul %{{.*}}, %{{.*}} {graph.weight_exponent = -4 : i64, graph.range = array<f32: -7.500000e-01, 6.500000e+00>, graph.exponent = -4 : i64} : {{.*}} loc("dense")
// CHECK-NEXT:    %[[S:.*]] = graph.binary add %[[P]], %{{.*}} {graph.range = array<f32: 0.000000e+00, 6.000000e+00>, graph.exponent = -4 : i64, activation = #graph.function<relu>} : {{.*}} loc("dense")
// CHECK-NEXT:    func.return %[[S]]
func.func @main(%x: tensor<1x1xf32> {graph.exponent = -3 : i64}, %r: tensor<1x1xf32> {graph.exponent = -8 : i64, graph.range = array<f32: -0.5, 0.75>}) -> tensor<1x1xf32> {
  %w = graph.constant dense<1.0> : tensor<1x1xf32> : tensor<1x1xf32>
  %a = graph.matmul %x, %w residual %r : tensor<1x1xf32> {activation = #graph.function<relu>, graph.weight_exponent = -4 : i64, graph.range = array<f32: 0.0, 6.0>, graph.exponent = -4 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32> loc("dense")
  func.return %a : tensor<1x1xf32>
}

// -----

// A shift of 24 is more than 32 bits of accumulator leave for 8 bits of residual.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.matmul %{{.*}} {graph.weight_exponent = -20 : i64, graph.range = array<f32: -3.810000e+02, 3.810000e+02>, graph.exponent = 2 : i64}
// CHECK-NEXT:    graph.binary add %{{.*}} {graph.exponent = 0 : i64}
func.func @main(%x: tensor<1x1xf32> {graph.exponent = -3 : i64}, %r: tensor<1x1xf32> {graph.exponent = 1 : i64}) -> tensor<1x1xf32> {
  %w = graph.constant dense<1.0e-5> : tensor<1x1xf32> : tensor<1x1xf32>
  %a = graph.matmul %x, %w residual %r : tensor<1x1xf32> {graph.weight_exponent = -20 : i64, graph.exponent = 0 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  func.return %a : tensor<1x1xf32>
}

// -----

// Equal steps, a shift of 0; and a residual that is coarser, a left shift.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.matmul %{{.*}} residual
// CHECK-NEXT:    graph.matmul %{{.*}} residual
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<1x1xf32> {graph.exponent = -3 : i64}, %r: tensor<1x1xf32> {graph.exponent = -7 : i64}) -> tensor<1x1xf32> {
  %w = graph.constant dense<1.0> : tensor<1x1xf32> : tensor<1x1xf32>
  %a = graph.matmul %x, %w residual %r : tensor<1x1xf32> {graph.weight_exponent = -4 : i64, graph.exponent = -4 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %b = graph.matmul %x, %w residual %a : tensor<1x1xf32> {graph.weight_exponent = -4 : i64, graph.exponent = -4 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  func.return %b : tensor<1x1xf32>
}

// -----

// Channels of other scales: the residual is coarser than each of them, or finer than one.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.matmul %{{.*}} residual
// CHECK-NEXT:    graph.matmul %{{[a-z]*}}, %{{[a-z]*}} {
// CHECK-NEXT:    graph.binary add
func.func @main(%x: tensor<1x1xf32> {graph.exponent = -3 : i64}, %r: tensor<1x2xf32> {graph.exponent = -7 : i64}) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[1.0], [0.25]]> : tensor<2x1xf32> : tensor<2x1xf32>
  %a = graph.matmul %x, %w residual %r : tensor<1x2xf32> {graph.weight_exponent = -4 : i64, graph.row_exponents = array<i64: 0, -2>, graph.exponent = -4 : i64} : (tensor<1x1xf32>, tensor<2x1xf32>) -> tensor<1x2xf32>
  %b = graph.matmul %x, %w residual %r : tensor<1x2xf32> {graph.weight_exponent = -2 : i64, graph.row_exponents = array<i64: 0, -3>, graph.exponent = -4 : i64} : (tensor<1x1xf32>, tensor<2x1xf32>) -> tensor<1x2xf32>
  func.return %b : tensor<1x2xf32>
}
