// RUN: ceras-opt %s --fold-qdq="rules=hoist" --split-input-file | filecheck %s

func.func @main(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<8x!quant.uniform<i8:f32, 0.5:1>> {
  %c = graph.concat %x, %y {axis = 1 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
  %r = graph.reshape %c : (tensor<2x4xf32>) -> tensor<8xf32>
  %q = graph.quantize %r : (tensor<8xf32>) -> tensor<8x!quant.uniform<i8:f32, 0.5:1>>
  func.return %q : tensor<8x!quant.uniform<i8:f32, 0.5:1>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.quantize %{{.*}} : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5:1>>
// CHECK-NEXT: %{{.*}} = graph.quantize %{{.*}} : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5:1>>
// CHECK-NEXT: %{{.*}} = graph.concat %{{.*}}, %{{.*}} {axis = 1 : i64} : (tensor<2x2x!quant.uniform<i8:f32, 0.5:1>>, tensor<2x2x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5:1>>
// CHECK-NEXT: %{{.*}} = graph.reshape %{{.*}} : (tensor<2x4x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<8x!quant.uniform<i8:f32, 0.5:1>>
// CHECK-NEXT: func.return %{{.*}} : tensor<8x!quant.uniform<i8:f32, 0.5:1>>

// -----

// The floats are read too.
func.func @main(%x: tensor<2x2xf32>) -> (tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 0.5:1>>) {
  %r = graph.reshape %x : (tensor<2x2xf32>) -> tensor<4xf32>
  %q = graph.quantize %r : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:1>>
  func.return %r, %q : tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 0.5:1>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.reshape %{{.*}} : (tensor<2x2xf32>) -> tensor<4xf32>
// CHECK-NEXT: %{{.*}} = graph.quantize %{{.*}} : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:1>>
// CHECK-NEXT: func.return %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 0.5:1>>

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
