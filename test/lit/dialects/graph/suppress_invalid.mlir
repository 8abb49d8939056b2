// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @scores(%b: tensor<1x6x4xf32>, %s: tensor<1x2x5xf32>) {
  // expected-error@+1 {{scores must have shape}}
  %0 = graph.suppress %b, %s {most = 3 : i64, overlap = 0.5 : f32, least = 0.0 : f32} : (tensor<1x6x4xf32>, tensor<1x2x5xf32>) -> tensor<6x3xi64>
  func.return
}

// -----

func.func @most(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>) {
  // expected-error@+1 {{most must be >= 1, got 0}}
  %0 = graph.suppress %b, %s {most = 0 : i64, overlap = 0.5 : f32, least = 0.0 : f32} : (tensor<1x6x4xf32>, tensor<1x2x6xf32>) -> tensor<6x3xi64>
  func.return
}

// -----

func.func @corners(%b: tensor<1x6x5xf32>, %s: tensor<1x2x6xf32>) {
  // expected-error@+1 {{boxes must have shape}}
  %0 = graph.suppress %b, %s {most = 1 : i64, overlap = 0.5 : f32, least = 0.0 : f32} : (tensor<1x6x5xf32>, tensor<1x2x6xf32>) -> tensor<6x3xi64>
  func.return
}
