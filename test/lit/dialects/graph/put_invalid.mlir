// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @rank(%x: tensor<7x3x1xf32>, %i: tensor<4xi64>, %u: tensor<4x3xf32>) {
  // expected-error@+1 {{input must have rank 2, got shape (7, 3, 1)}}
  %0 = graph.put %u into %x[%i] : (tensor<7x3x1xf32>, tensor<4xi64>, tensor<4x3xf32>) -> tensor<7x3x1xf32>
  func.return
}

// -----

func.func @indices(%x: tensor<7x3xf32>, %i: tensor<4xf32>, %u: tensor<4x3xf32>) {
  // expected-error@+1 {{indices must be integers, got f32}}
  %0 = graph.put %u into %x[%i] : (tensor<7x3xf32>, tensor<4xf32>, tensor<4x3xf32>) -> tensor<7x3xf32>
  func.return
}

// -----

func.func @elements(%x: tensor<7x3xf32>, %i: tensor<4xi64>, %u: tensor<4x3xi64>) {
  // expected-error@+1 {{rows must have elements of f32, got i64}}
  %0 = graph.put %u into %x[%i] : (tensor<7x3xf32>, tensor<4xi64>, tensor<4x3xi64>) -> tensor<7x3xf32>
  func.return
}

// -----

func.func @shape(%x: tensor<7x3xf32>, %i: tensor<4xi64>, %u: tensor<3x3xf32>) {
  // expected-error@+1 {{rows must have shape}}
  %0 = graph.put %u into %x[%i] : (tensor<7x3xf32>, tensor<4xi64>, tensor<3x3xf32>) -> tensor<7x3xf32>
  func.return
}

// -----

func.func @stored(%q: tensor<7x3x!quant.uniform<i8:f32, 0.5>>, %j: tensor<2xi8>, %v: tensor<2x3x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{quantized elements cannot be combined; dequantize them}}
  %0 = graph.put %v into %q[%j] by sum : (tensor<7x3x!quant.uniform<i8:f32, 0.5>>, tensor<2xi8>, tensor<2x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<7x3x!quant.uniform<i8:f32, 0.5>>
  func.return
}
