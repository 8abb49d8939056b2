// RUN: ceras-opt %s --observe-ranges --split-input-file 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// RUN: ceras-opt %s --observe-ranges --observe-ranges --split-input-file 2>%t2 | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t2

// Only the first network lacks data, and it lacks none the second time.
// NOTE:     observe-ranges: warning: no calibration data for 3 values; their ranges are those of 6 synthetic samples (seed 0) of the declared input range; give real samples (--calibrate FILE.npz; calibration=FILE.npz in ceras-opt)
// NOTE-NOT: {{note|warning}}

// The argument declares its range. What is a constant, or another value in another order, has
// no range of its own; what is always zero gets the exponent -7. Numbers that all lie below zero
// are better stored with a zero point, in steps of a half.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    graph.input_range = array<f32: -8.000000e+00, 8.000000e+00>, graph.range = array<f32: -7.{{[0-9]+}}, 6.{{[0-9]+}}>, graph.exponent = -4 : i64}
// CHECK-NEXT:    graph.constant dense<-1.000000e+02> : tensor<1xf32> : tensor<1xf32>
// CHECK-NEXT:    graph.reshape %{{.*}} : (tensor<2x4xf32>) -> tensor<8xf32>
// CHECK-NEXT:    graph.binary add %{{.*}} {graph.range = array<f32: -107.{{[0-9]*}}, -93.{{[0-9]*}}>, graph.exponent = 0 : i64, graph.affine = array<i64: -1, 127>}
// CHECK-NEXT:    graph.unary <relu> %{{.*}} {graph.range = array<f32: 0.000000e+00, 0.000000e+00>, graph.exponent = -7 : i64}
func.func @main(%x: tensor<2x4xf32> {graph.input_range = array<f32: -8.0, 8.0>}) -> tensor<8xf32> {
  %k = graph.constant dense<-100.0> : tensor<1xf32> : tensor<1xf32>
  %a = graph.reshape %x : (tensor<2x4xf32>) -> tensor<8xf32>
  %b = graph.binary add %a, %k : (tensor<8xf32>, tensor<1xf32>) -> tensor<8xf32>
  %c = graph.unary <relu> %b : tensor<8xf32>
  func.return %c : tensor<8xf32>
}

// -----

// A range alone, as somebody wrote it, becomes the finest exponent that overflows nowhere:
// 127.49 rounds to 127, 127.5 to 128. An exponent is kept.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    graph.exponent = -3 : i64}
// CHECK-NEXT:    graph.unary <tanh> %{{.*}} {graph.range = {{.*}}, graph.exponent = 0 : i64}
// CHECK-NEXT:    graph.unary <tanh> %{{.*}} {graph.range = {{.*}}, graph.exponent = 1 : i64}
func.func @main(%x: tensor<4xf32> {graph.exponent = -3 : i64}) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = graph.unary <tanh> %x {graph.range = array<f32: -127.49, 1.0>} : tensor<4xf32>
  %b = graph.unary <tanh> %x {graph.range = array<f32: -1.0, 127.5>} : tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// A quantized network is left alone.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    graph.quantize %{{.*}} : (tensor<4xf32>)
// CHECK-NEXT:    graph.dequantize %{{.*}} : (tensor<4x!quant.uniform<i8:f32, 0.5>>)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %q = graph.quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %y = graph.dequantize %q : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
