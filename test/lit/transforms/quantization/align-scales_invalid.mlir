// RUN: ceras-opt %s --align-scales --split-input-file --verify-diagnostics

func.func @main(%x: tensor<4xf32> {graph.exponent = -3 : i64}) -> tensor<4xf32> {
  // expected-error@+1 {{no graph.exponent: run --calibrate first}}
  %a = graph.unary <tanh> %x : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// expected-error@+1 {{graph.exponent must be an integer in [-1000, 1000], got "one"}}
func.func @main(%x: tensor<4xf32> {graph.exponent = "one"}) -> tensor<4xf32> {
  %a = graph.unary <tanh> %x {graph.exponent = -3 : i64} : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<1x4xf32> {graph.exponent = -7 : i64}) -> tensor<1x2xf32> {
  %w = graph.constant dense<0x7F800000> : tensor<2x4xf32> : tensor<2x4xf32>
  // expected-error@+1 {{weights and biases must be finite}}
  %y = graph.matmul %x, %w {graph.exponent = -7 : i64, graph.weight_exponent = -7 : i64} : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
