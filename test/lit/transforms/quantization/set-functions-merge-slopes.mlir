// RUN: ceras-opt %s --set-functions="rules=merge-slopes" | filecheck %s
// RUN: ceras-opt %s --set-functions="rules=merge-slopes" --separate-slopes | filecheck %s --check-prefix=APART

// A slope of each channel: a single function.
// CHECK: graph.unary <leaky_relu, 0.5, 0.25, 0.5> %x {graph.exponent = -5 : i64, input_exponents = array<i64: 0, 0, 0>, result_exponents = array<i64: 0, 0, 0>} : tensor<2x3xf32>
// For targets with a single slope, the operations are separate.
// APART: graph.unary <relu>
// APART-NEXT: graph.unary <clip, -inf, 0.0>
// APART-NEXT: graph.constant dense<[5.000000e-01, 2.500000e-01, 5.000000e-01]>
// APART-NEXT: graph.binary mul
// APART-NEXT: graph.binary add
func.func @main(%x: tensor<2x3xf32> {graph.name = "x", graph.exponent = -5 : i64}) -> (tensor<2x3xf32> {graph.name = "y"}, tensor<2x3xf32> {graph.name = "z"}, tensor<2x3xf32> {graph.name = "v"}) {
  %s = graph.constant dense<[0.5, 0.25, 0.5]> : tensor<3xf32> : tensor<3xf32>
  %r = graph.constant dense<[[0.5], [0.25]]> : tensor<2x1xf32> : tensor<2x1xf32>
  %0 = graph.unary <relu> %x : tensor<2x3xf32>
  %1 = graph.unary <clip, -inf, 0.0> %x : tensor<2x3xf32>
  %2 = graph.binary mul %1, %s : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %3 = graph.binary add %0, %2 {graph.exponent = -5 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // Slopes of rows remain separate operations.
  // CHECK: graph.binary mul
  // CHECK-NEXT: graph.binary add
  %4 = graph.unary <relu> %x : tensor<2x3xf32>
  %5 = graph.unary <clip, -inf, 0.0> %x : tensor<2x3xf32>
  %6 = graph.binary mul %5, %r : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %7 = graph.binary add %4, %6 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // The product has another consumer.
  // CHECK: graph.binary mul
  // CHECK-NEXT: graph.binary add
  %8 = graph.unary <relu> %x : tensor<2x3xf32>
  %9 = graph.unary <clip, -inf, 0.0> %x : tensor<2x3xf32>
  %a = graph.binary mul %9, %s : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %b = graph.binary add %8, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = graph.binary add %a, %b : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %3, %7, %c : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}
