// RUN: ceras-opt %s --quantize-graph="rules=recurrences" --split-input-file | filecheck %s
// RUN: ceras-opt %s --quantize-graph="rules=recurrences" --quantize-graph="rules=recurrences" --split-input-file | filecheck %s

// Each row has a power of two of its own; 1.5 does not fit 127 steps of 2^-7.
// CHECK-LABEL: func.func @main
// CHECK: graph.constant dense<{{\[\[}}64, -32], [96, 0]]> : tensor<2x2xi8>
// CHECK: graph.recurrence rnn {{.*}} state_exponent = -14 : i64, weight_exponents = array<i64: -7, -6>{{.*}} tensor<2x2xi8>
func.func @main(%x: tensor<3x1x2xf32>, %h: tensor<1x2xf32>) -> tensor<3x1x2xf32> {
  %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %y = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<tanh>]} : (tensor<3x1x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<3x1x2xf32>
  func.return %y : tensor<3x1x2xf32>
}

// -----

// A state that nothing bounds, a layer that stays float, and weights that are computed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: i8
func.func @main(%x: tensor<3x1x2xf32>, %h: tensor<1x2xf32>, %v: tensor<2x2xf32>) -> (tensor<3x1x2xf32>, tensor<3x1x2xf32>, tensor<3x1x2xf32>) {
  %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %y = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<relu>]} : (tensor<3x1x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<3x1x2xf32>
  %z = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<tanh>], graph.precision = "f32"} : (tensor<3x1x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<3x1x2xf32>
  %u = graph.recurrence rnn %x, %v, %h {functions = [#graph.function<tanh>]} : (tensor<3x1x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<3x1x2xf32>
  func.return %y, %z, %u : tensor<3x1x2xf32>, tensor<3x1x2xf32>, tensor<3x1x2xf32>
}

// -----

// A first state beyond 1 has steps that hold twice of what was seen, moved or constant.
// CHECK-LABEL: func.func @main
// CHECK: state_exponent = -12
// CHECK: state_exponent = -13
// CHECK: state_exponent = -14
func.func @main(%x: tensor<3x1x2xf32>, %h: tensor<2x1xf32> {graph.range = array<f32: -3.5, 1.0>}, %g: tensor<1x2xf32> {graph.range = array<f32: -1.0, 1.0>}) -> (tensor<3x1x2xf32>, tensor<3x1x2xf32>, tensor<3x1x2xf32>) {
  %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %c = graph.constant dense<[[0.5, -1.75]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %m = graph.reshape %h : (tensor<2x1xf32>) -> tensor<1x2xf32>
  %y = graph.recurrence rnn %x, %w, %m {functions = [#graph.function<tanh>]} : (tensor<3x1x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<3x1x2xf32>
  %z = graph.recurrence rnn %x, %w, %c {functions = [#graph.function<tanh>]} : (tensor<3x1x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<3x1x2xf32>
  %u = graph.recurrence rnn %x, %w, %g {functions = [#graph.function<tanh>]} : (tensor<3x1x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<3x1x2xf32>
  func.return %y, %z, %u : tensor<3x1x2xf32>, tensor<3x1x2xf32>, tensor<3x1x2xf32>
}

// -----

// A layer of integers remains as it is.
// CHECK-LABEL: func.func @main
// CHECK: graph.constant dense<100> : tensor<8x2xi8>
// CHECK: graph.recurrence lstm {{.*}} weight_scales = array<f32: 5.000000e-01>, weight_zero_point = 3 : i64}
func.func @main(%x: tensor<3x1x8xf32>, %h: tensor<1x2xf32>) -> tensor<4x1x2xf32> {
  %w = graph.constant dense<100> : tensor<8x2xi8> : tensor<8x2xi8>
  %y = graph.recurrence lstm %x, %w, %h cell %h : tensor<1x2xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>], weight_scales = array<f32: 0.5>, weight_zero_point = 3 : i64} : (tensor<3x1x8xf32>, tensor<8x2xi8>, tensor<1x2xf32>) -> tensor<4x1x2xf32>
  func.return %y : tensor<4x1x2xf32>
}
