// RUN: ceras-opt %s --split-input-file --verify-diagnostics

func.func @main(%x: tensor<2x4x3xf32>, %r: tensor<2x5x3xf32>) -> tensor<2x4x3xf32> {
  // expected-error@+1 {{5 rows do not fit an extent of 4}}
  %y = graph.update %r into %x {axis = 1 : i64} : (tensor<2x4x3xf32>, tensor<2x5x3xf32>) -> tensor<2x4x3xf32>
  func.return %y : tensor<2x4x3xf32>
}

// -----

func.func @main(%x: tensor<2x4x3xf32>, %r: tensor<2x2x3xf32>, %i: tensor<1xi64>) -> tensor<2x4x3xf32> {
  // expected-error@+1 {{a position is for a single row, got 2}}
  %y = graph.update %r into %x at %i : tensor<1xi64> {axis = 1 : i64}
      : (tensor<2x4x3xf32>, tensor<2x2x3xf32>) -> tensor<2x4x3xf32>
  func.return %y : tensor<2x4x3xf32>
}

// -----

func.func @main(%x: tensor<2x4x3xf32>, %r: tensor<2x1x3xf32>) -> tensor<2x4x3xf32> {
  // expected-error@+1 {{'wraps' needs a position}}
  %y = graph.update %r into %x {axis = 1 : i64, wraps} : (tensor<2x4x3xf32>, tensor<2x1x3xf32>) -> tensor<2x4x3xf32>
  func.return %y : tensor<2x4x3xf32>
}

// -----

func.func @main(%x: tensor<1x3xf32>, %w: tensor<4x3xf32>) -> tensor<1x4xf32> {
  // expected-error@+1 {{elements 1 to 12 are not all in weights of 12}}
  %y = graph.strided_matmul %x, %w {offset = 1 : i64, strides = array<i64: 3, 1>}
      : (tensor<1x3xf32>, tensor<4x3xf32>) -> tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}
