// RUN: ceras-opt %s --split-input-file --choose-weight-exponents --align-scales --quantize-graph | filecheck %s

// A function's result in 16 bits is a table of 16 bits, whether it reads 8 or, by its form, 16. One
// that reads all of 16 bits is computed in float.
// CHECK-LABEL: func.func @main(
// CHECK: graph.lookup {{.*}} : tensor<256xi16> {{.*}} : (tensor<1x2x!quant.uniform<i8:f32, 0.0625>>) -> tensor<1x2x!quant.uniform<i16:f32, 0.0078125>>
func.func @main(%x: tensor<1x2xf32> {graph.range = array<f32: -4.0, 4.0>, graph.exponent = -4 : i64}) -> tensor<1x2xf32> {
  %0 = graph.unary <tanh> %x {graph.range = array<f32: -1.0, 1.0>, graph.exponent = -7 : i64, graph.precision = "i16"} : tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}

// -----

// CHECK-LABEL: func.func @main(
// CHECK: graph.lookup {{.*}} : tensor<1024xi16> {{.*}} : (tensor<1x2x!quant.uniform<i16:f32, 0.0078125>>) -> tensor<1x2x!quant.uniform<i16:f32, 6.103515625e-05>>
func.func @main(%x: tensor<1x2xf32> {graph.range = array<f32: -4.0, 4.0>, graph.exponent = -7 : i64, graph.precision = "i16"}) -> tensor<1x2xf32> {
  %0 = graph.unary <tanh> %x {graph.range = array<f32: -1.0, 1.0>, graph.exponent = -14 : i64, graph.precision = "i16", graph.form = "table16"} : tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}

// -----

// CHECK-LABEL: func.func @main(
// CHECK: graph.unary <tanh> {{.*}} : tensor<1x2xf32>
func.func @main(%x: tensor<1x2xf32> {graph.range = array<f32: -4.0, 4.0>, graph.exponent = -12 : i64, graph.precision = "i16"}) -> tensor<1x2xf32> {
  %0 = graph.unary <tanh> %x {graph.range = array<f32: -1.0, 1.0>, graph.exponent = -14 : i64, graph.precision = "i16"} : tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}
