// RUN: ceras-opt %s --fold-qdq="rules=sink" --split-input-file | filecheck %s

func.func @main(%x: tensor<2x2x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<4xf32> {
  %r = graph.dequantize %x : (tensor<2x2x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<2x2xf32>
  %t = graph.transpose %r {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %s = graph.reshape %t : (tensor<2x2xf32>) -> tensor<4xf32>
  func.return %s : tensor<4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.transpose %{{.*}} {permutation = array<i64: 1, 0>} : (tensor<2x2x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5:-128>>
// CHECK-NEXT: %{{.*}} = graph.reshape %{{.*}} : (tensor<2x2x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<4x!quant.uniform<i8:f32, 0.5:-128>>
// CHECK-NEXT: %{{.*}} = graph.dequantize %{{.*}} : (tensor<4x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<4xf32>
// CHECK-NEXT: func.return %{{.*}} : tensor<4xf32>

// -----

// Zero is stored as the zero point.
func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4xf32> {
  %r = graph.dequantize %x : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32>
  %u = graph.unary <relu> %r : tensor<2xf32>
  %p = graph.pad constant %u {low = array<i64: 1>, high = array<i64: 1>, interior = array<i64: 0>, value = 0.0 : f32} : (tensor<2xf32>) -> tensor<4xf32>
  func.return %p : tensor<4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.requantize %{{.*}} {requant = #graph.requant<shift = 0, rounding = half_up, zero_point = 3, low = 3, high = 127>} : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
// CHECK-NEXT: %{{.*}} = graph.pad constant %{{.*}} {low = array<i64: 1>, high = array<i64: 1>, interior = array<i64: 0>, value = 3 : i64} : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>>
// CHECK-NEXT: %{{.*}} = graph.dequantize %{{.*}} : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4xf32>
// CHECK-NEXT: func.return %{{.*}} : tensor<4xf32>

// -----

// No integer stands for 0.3, and two scales are not one.
func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %y: tensor<2x!quant.uniform<i8:f32, 0.25:3>>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = graph.dequantize %x : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32>
  %b = graph.dequantize %y : (tensor<2x!quant.uniform<i8:f32, 0.25:3>>) -> tensor<2xf32>
  %p = graph.pad constant %a {low = array<i64: 1>, high = array<i64: 1>, interior = array<i64: 0>, value = 0.3 : f32} : (tensor<2xf32>) -> tensor<4xf32>
  %c = graph.concat %a, %b {axis = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  func.return %p, %c : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.dequantize %{{.*}} : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32>
// CHECK-NEXT: %{{.*}} = graph.dequantize %{{.*}} : (tensor<2x!quant.uniform<i8:f32, 0.25:3>>) -> tensor<2xf32>
// CHECK-NEXT: %{{.*}} = graph.pad constant %{{.*}} {low = array<i64: 1>, high = array<i64: 1>, interior = array<i64: 0>, value = 3.000000e-01 : f32} : (tensor<2xf32>) -> tensor<4xf32>
// CHECK-NEXT: %{{.*}} = graph.concat %{{.*}}, %{{.*}} {axis = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
// CHECK-NEXT: func.return %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>

// -----

// What is kept in float stays between.
func.func @main(%x: tensor<2x!quant.uniform<i16:f32, 0.125>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %r = graph.dequantize %x : (tensor<2x!quant.uniform<i16:f32, 0.125>>) -> tensor<2xf32>
  %p = graph.pad constant %r {graph.precision = "f32", low = array<i64: 1>, high = array<i64: 1>, interior = array<i64: 0>, value = 1.0 : f32} : (tensor<2xf32>) -> tensor<4xf32>
  %q = graph.quantize %p : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %q : tensor<4x!quant.uniform<i8:f32, 0.5>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: graph.dequantize
// CHECK-NEXT: graph.pad
// CHECK-NEXT: graph.quantize
// CHECK-NEXT: func.return
