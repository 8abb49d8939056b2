// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @rank(%x: tensor<7x3x1xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{input must have rank 2, got shape (7, 3, 1)}}
  %0 = graph.take %x[%i] : (tensor<7x3x1xf32>, tensor<4xi64>) -> tensor<4x3xf32>
  func.return
}

// -----

func.func @indices(%x: tensor<7x3xf32>, %i: tensor<4xf32>) {
  // expected-error@+1 {{indices must be integers, got f32}}
  %0 = graph.take %x[%i] : (tensor<7x3xf32>, tensor<4xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

func.func @truth(%x: tensor<7x3xf32>, %i: tensor<4xi1>) {
  // expected-error@+1 {{indices must be integers, got i1}}
  %0 = graph.take %x[%i] : (tensor<7x3xf32>, tensor<4xi1>) -> tensor<4x3xf32>
  func.return
}

// -----

func.func @element(%x: tensor<7x3xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{element types must be equal, got f32 -> i64}}
  %0 = graph.take %x[%i] : (tensor<7x3xf32>, tensor<4xi64>) -> tensor<4x3xi64>
  func.return
}

// -----

func.func @shape(%x: tensor<7x3xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{result must have shape (4, 3), got (3, 3)}}
  %0 = graph.take %x[%i] : (tensor<7x3xf32>, tensor<4xi64>) -> tensor<3x3xf32>
  func.return
}
