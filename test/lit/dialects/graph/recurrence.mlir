// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<5x2x12xf32>, %w: tensor<12x3xf32>, %h: tensor<2x3xf32>, %c: tensor<2x3xf32>, %v: tensor<9x3xf32>, %b: tensor<9xf32>, %z: tensor<5x2x9xf32>, %y: tensor<5x2x3xf32>) -> (tensor<6x2x3xf32>, tensor<5x2x3xf32>) {
  // CHECK: graph.recurrence lstm %x, %w, %h cell %c : tensor<2x3xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>]} : (tensor<5x2x12xf32>, tensor<12x3xf32>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  %0 = graph.recurrence lstm %x, %w, %h cell %c : tensor<2x3xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>]} : (tensor<5x2x12xf32>, tensor<12x3xf32>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  // CHECK: graph.recurrence gru %z, %v, %h bias %b : tensor<9xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>]} : (tensor<5x2x9xf32>, tensor<9x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %1 = graph.recurrence gru %z, %v, %h bias %b : tensor<9xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>]} : (tensor<5x2x9xf32>, tensor<9x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %i = graph.constant dense<1> : tensor<3x3xi8> : tensor<3x3xi8>
  // CHECK: graph.recurrence rnn %{{.*}} {functions = [#graph.function<tanh>], state_exponent = -14 : i64, weight_exponents = array<i64: -7, -6, -5>} : (tensor<5x2x3xf32>, tensor<3x3xi8>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %2 = graph.recurrence rnn %y, %i, %h {functions = [#graph.function<tanh>], state_exponent = -14 : i64, weight_exponents = array<i64: -7, -6, -5>} : (tensor<5x2x3xf32>, tensor<3x3xi8>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %j = graph.constant dense<1> : tensor<12x3xi8> : tensor<12x3xi8>
  // CHECK: graph.recurrence lstm %{{.*}} {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>], weight_scales = array<f32: 1.000000e-01>, weight_zero_point = -3 : i64} : (tensor<5x2x12xf32>, tensor<12x3xi8>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  %3 = graph.recurrence lstm %x, %j, %h cell %c : tensor<2x3xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>], weight_scales = array<f32: 0.1>, weight_zero_point = -3 : i64} : (tensor<5x2x12xf32>, tensor<12x3xi8>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  func.return %0, %1 : tensor<6x2x3xf32>, tensor<5x2x3xf32>
}
