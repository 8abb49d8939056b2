// RUN: ceras-opt %s --fold-qdq="rules=signs" --split-input-file | filecheck %s

func.func @main(%x: tensor<4x!quant.uniform<u8:f32, 0.5:128>>) -> tensor<4x!quant.uniform<u8:f32, 0.25:3>> {
  %r = graph.dequantize %x : (tensor<4x!quant.uniform<u8:f32, 0.5:128>>) -> tensor<4xf32>
  %y = graph.quantize %r : (tensor<4xf32>) -> tensor<4x!quant.uniform<u8:f32, 0.25:3>>
  func.return %y : tensor<4x!quant.uniform<u8:f32, 0.25:3>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.requantize %{{.*}} {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<4x!quant.uniform<u8:f32, 0.5:128>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT: %{{.*}} = graph.dequantize %{{.*}} : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
// CHECK-NEXT: %{{.*}} = graph.quantize %{{.*}} : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.25:-125>>
// CHECK-NEXT: %{{.*}} = graph.requantize %{{.*}} {requant = #graph.requant<shift = 0, rounding = half_up, zero_point = 3, low = 0, high = 255>} : (tensor<4x!quant.uniform<i8:f32, 0.25:-125>>) -> tensor<4x!quant.uniform<u8:f32, 0.25:3>>
// CHECK-NEXT: func.return %{{.*}} : tensor<4x!quant.uniform<u8:f32, 0.25:3>>

// -----

func.func @main(%x: tensor<1x2x!quant.uniform<u8:f32, 0.5:128>>) -> tensor<1x1x!quant.uniform<i8:f32, 0.5:-3>> {
  %w = graph.constant dense<[[0, 255]]> : tensor<1x2xui8> : tensor<1x2x!quant.uniform<u8:f32, 0.25:128>>
  %y = graph.matmul %x, %w {requant = #graph.requant<shift = 2, rounding = half_up, zero_point = -3, low = -128, high = 127>} : (tensor<1x2x!quant.uniform<u8:f32, 0.5:128>>, tensor<1x2x!quant.uniform<u8:f32, 0.25:128>>) -> tensor<1x1x!quant.uniform<i8:f32, 0.5:-3>>
  func.return %y : tensor<1x1x!quant.uniform<i8:f32, 0.5:-3>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.requantize %{{.*}} {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x!quant.uniform<u8:f32, 0.5:128>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT: %{{.*}} = graph.constant dense<{{\[\[}}-128, 127]]> : tensor<1x2xi8> : tensor<1x2x!quant.uniform<i8:f32, 0.25>>
// CHECK-NEXT: %{{.*}} = graph.matmul %{{.*}}, %{{.*}} {requant = #graph.requant<shift = 2, rounding = half_up, zero_point = -3, low = -128, high = 127>} : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<1x1x!quant.uniform<i8:f32, 0.5:-3>>
// CHECK-NEXT: func.return %{{.*}} : tensor<1x1x!quant.uniform<i8:f32, 0.5:-3>>

// -----

// A scale per channel stays as it is.
func.func @main(%x: tensor<2xf32>) -> tensor<2x!quant.uniform<u8:f32:0, {0.25:3, 0.5}>> {
  %y = graph.quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<u8:f32:0, {0.25:3, 0.5}>>
  func.return %y : tensor<2x!quant.uniform<u8:f32:0, {0.25:3, 0.5}>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.quantize %{{.*}} : (tensor<2xf32>) -> tensor<2x!quant.uniform<u8:f32:0, {0.25:3, 0.5}>>
// CHECK-NEXT: func.return %{{.*}} : tensor<2x!quant.uniform<u8:f32:0, {0.25:3, 0.5}>>

// -----

// The bounds are those of 16 bits.
func.func @main(%x: tensor<4x!quant.uniform<u16:f32, 1.0:32768>>) -> tensor<4xf32> {
  %y = graph.dequantize %x : (tensor<4x!quant.uniform<u16:f32, 1.0:32768>>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.requantize %{{.*}} {requant = #graph.requant<shift = 0, rounding = half_up, low = -32768, high = 32767>} : (tensor<4x!quant.uniform<u16:f32, 1.0:32768>>) -> tensor<4x!quant.uniform<i16:f32, 1.0>>

// -----

// What is put around numbers, and the bounds and the zero point of requantizations move with them.
func.func @main(%x: tensor<2xf32>) -> tensor<4x!quant.uniform<u16:f32, 0.5:1000>> {
  %q = graph.quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<u8:f32, 0.5:100>>
  %p = graph.pad constant %q {low = array<i64: 1>, high = array<i64: 1>, interior = array<i64: 0>, value = 101 : i64} : (tensor<2x!quant.uniform<u8:f32, 0.5:100>>) -> tensor<4x!quant.uniform<u8:f32, 0.5:100>>
  %r = graph.requantize %p {requant = #graph.requant<shift = 1, rounding = half_up, zero_point = 130, low = 131, high = 140>} : (tensor<4x!quant.uniform<u8:f32, 0.5:100>>) -> tensor<4x!quant.uniform<u8:f32, 1.0:130>>
  %y = graph.requantize %r {requant = #graph.requant<multiplier = 2, shift = 0, rounding = half_up, zero_point = 1000, low = 0, high = 65535>} : (tensor<4x!quant.uniform<u8:f32, 1.0:130>>) -> tensor<4x!quant.uniform<u16:f32, 0.5:1000>>
  func.return %y : tensor<4x!quant.uniform<u16:f32, 0.5:1000>>
}

// CHECK-LABEL: func.func @main
// CHECK: graph.pad constant %{{.*}} value = -27 : i64} : (tensor<2x!quant.uniform<i8:f32, 0.5:-28>>)
// CHECK-NEXT: %{{.*}} = graph.requantize %{{.*}} {requant = #graph.requant<shift = 1, rounding = half_up, zero_point = 2, low = 3, high = 12>} : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 1.0:2>>
// CHECK-NEXT: %{{.*}} = graph.requantize %{{.*}} {requant = #graph.requant<multiplier = 2, shift = 0, rounding = half_up, zero_point = -31768, low = -32768, high = 32767>} : {{.*}} -> tensor<4x!quant.uniform<i16:f32, 0.5:-31768>>
// CHECK-NEXT: %{{.*}} = graph.requantize %{{.*}} {requant = #graph.requant<shift = 0, rounding = half_up, zero_point = 1000, low = 0, high = 65535>} : {{.*}} -> tensor<4x!quant.uniform<u16:f32, 0.5:1000>>
