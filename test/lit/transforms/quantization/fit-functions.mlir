// RUN: ceras-opt %s --fit-functions | filecheck %s
// RUN: ceras-opt %s --fit-functions --fit-functions | filecheck %s

// A range of [-3, 3] takes steps of 2^-5 in int8: 1024 entries are four times as fine, shifts 2^7.
func.func @main(%x: tensor<1x2xf32>, %w: tensor<2x2xf32>) -> tensor<1x2xf32> {
  // CHECK: graph.matmul %x, %w {graph.exponent = -7 : i64, graph.range = {{.*}}, graph.precision = "i16"}
  %0 = graph.matmul %x, %w {graph.exponent = -5 : i64, graph.range = array<f32: -3.0, 3.0>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = graph.unary <swish> %0 {graph.form = "table16"} : tensor<1x2xf32>
  // CHECK: graph.matmul %{{.*}}, %w {graph.exponent = -12 : i64, graph.range = {{.*}}, graph.precision = "i16"}
  %2 = graph.matmul %1, %w {graph.exponent = -5 : i64, graph.range = array<f32: -3.0, 3.0>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %3 = graph.unary <swish> %2 {graph.form = "shifts"} : tensor<1x2xf32>
  // CHECK: graph.matmul %{{.*}}, %w {graph.exponent = -5 : i64, graph.range = array<f32: -3.000000e+00, 3.000000e+00>} :
  %4 = graph.matmul %3, %w {graph.exponent = -5 : i64, graph.range = array<f32: -3.0, 3.0>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %5 = graph.unary <swish> %4 : tensor<1x2xf32>
  func.return %5 : tensor<1x2xf32>
}
