// RUN: ceras-opt %s --quantize-graph="rules=operations" --split-input-file --verify-diagnostics

func.func @main(%x: tensor<4xf32> {graph.exponent = -3 : i64}) -> tensor<4xf32> {
  // expected-error@+1 {{no graph.exponent: run --calibrate first}}
  %a = graph.unary <tanh> %x : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<1x1xf32> {graph.exponent = -7 : i64}) -> tensor<1x1xf32> {
  %w = graph.constant dense<0.01> : tensor<1x1xf32> : tensor<1x1xf32>
  %b = graph.constant dense<4096.0> : tensor<1xf32> : tensor<1xf32>
  // expected-error@+1 {{the bias does not fit 32 bits, or the residual cannot be aligned: run --align-scales, then --unfuse-residual, first}}
  %a = graph.matmul %x, %w bias %b : tensor<1xf32> {graph.weight_exponent = -12 : i64, graph.exponent = 6 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  func.return %a : tensor<1x1xf32>
}

// -----

func.func @main(%x: tensor<1x1xf32> {graph.exponent = -7 : i64}) -> tensor<1x1xf32> {
  %w = graph.constant dense<1.0> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{the bias does not fit 32 bits, or the residual cannot be aligned: run --align-scales, then --unfuse-residual, first}}
  %a = graph.matmul %x, %w residual %x : tensor<1x1xf32> {graph.weight_exponent = 1 : i64, graph.exponent = 6 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  func.return %a : tensor<1x1xf32>
}
