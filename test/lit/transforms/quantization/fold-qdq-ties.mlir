// RUN: ceras-opt %s --fold-qdq="rules=ties" --split-input-file | filecheck %s

// The sum is of multiples of 2^-4; a quarter of that only decides ties.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.0625>>, %y: tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %a = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.0625>>) -> tensor<4xf32>
  %b = graph.dequantize %y : (tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4xf32>
  %s = graph.binary add %a, %b {activation = #graph.function<relu>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = graph.constant dense<0.015625> : tensor<f32> : tensor<f32>
  %t = graph.binary add %s, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %q = graph.quantize %t : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %q : tensor<4x!quant.uniform<i8:f32, 0.5>>
}
// CHECK: %[[S:.*]] = graph.binary add %{{.*}}, %{{.*}} {activation = #graph.function<relu>}
// CHECK-NOT: graph.binary
// CHECK: graph.quantize %[[S]]

// -----

// Half a unit and more moves other numbers too; what a scale with a zero point makes rounds to even.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.0625>>, %y: tensor<4x!quant.uniform<i8:f32, 0.0625:3>>) -> (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  %a = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.0625>>) -> tensor<4xf32>
  %b = graph.dequantize %y : (tensor<4x!quant.uniform<i8:f32, 0.0625:3>>) -> tensor<4xf32>
  %c = graph.constant dense<0.03125> : tensor<f32> : tensor<f32>
  %d = graph.constant dense<0.015625> : tensor<f32> : tensor<f32>
  %t = graph.binary add %a, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %u = graph.binary add %b, %d : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %q = graph.quantize %t : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %r = graph.quantize %u : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %q, %r : tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>
}
// CHECK: %[[T:.*]] = graph.binary add
// CHECK: %[[U:.*]] = graph.binary add
// CHECK: graph.quantize %[[T]]
// CHECK: graph.quantize %[[U]]

// -----

// Averages of nine are multiples of 2^-4 / 9; a factor this near to 1 decides only ties. With it
// the network says where its ties go, so that what has no such constant rounds to even, except a layer.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x3x3x2x!quant.uniform<i8:f32, 0.0625>>, %y: tensor<1x2xf32>) -> (tensor<1x1x1x2x!quant.uniform<i8:f32, 0.0625>>, tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x!quant.uniform<i8:f32, 0.5>>) {
  %a = graph.dequantize %x : (tensor<1x3x3x2x!quant.uniform<i8:f32, 0.0625>>) -> tensor<1x3x3x2xf32>
  %m = graph.pool2d average %a {kernel = array<i64: 3, 3>} : (tensor<1x3x3x2xf32>) -> tensor<1x1x1x2xf32>
  %f = graph.constant dense<1.00012207> : tensor<f32> : tensor<f32>
  %t = graph.binary mul %m, %f : (tensor<1x1x1x2xf32>, tensor<f32>) -> tensor<1x1x1x2xf32>
  %q = graph.quantize %t : (tensor<1x1x1x2xf32>) -> tensor<1x1x1x2x!quant.uniform<i8:f32, 0.0625>>
  %w = graph.constant dense<0.5> : tensor<2x2xf32> : tensor<2x2xf32>
  %l = graph.matmul %y, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %r = graph.quantize %l : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  %z = graph.unary <relu> %y : tensor<1x2xf32>
  %p = graph.quantize %z : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return %q, %r, %p : tensor<1x1x1x2x!quant.uniform<i8:f32, 0.0625>>, tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x!quant.uniform<i8:f32, 0.5>>
}
// CHECK: %[[M:.*]] = graph.pool2d average
// CHECK: graph.quantize %[[M]] :
// CHECK: %[[L:.*]] = graph.matmul
// CHECK: graph.quantize %[[L]] :
// CHECK: %[[R:.*]] = graph.unary <relu>
// CHECK: graph.quantize %[[R]] {graph.half_even} :

// -----

// A factor further from 1 moves other numbers than ties.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x3x3x2x!quant.uniform<i8:f32, 0.0625>>) -> tensor<1x1x1x2x!quant.uniform<i8:f32, 0.0625>> {
  %a = graph.dequantize %x : (tensor<1x3x3x2x!quant.uniform<i8:f32, 0.0625>>) -> tensor<1x3x3x2xf32>
  %m = graph.pool2d average %a {kernel = array<i64: 3, 3>} : (tensor<1x3x3x2xf32>) -> tensor<1x1x1x2xf32>
  %f = graph.constant dense<1.00024414> : tensor<f32> : tensor<f32>
  %t = graph.binary mul %m, %f : (tensor<1x1x1x2xf32>, tensor<f32>) -> tensor<1x1x1x2xf32>
  %q = graph.quantize %t : (tensor<1x1x1x2xf32>) -> tensor<1x1x1x2x!quant.uniform<i8:f32, 0.0625>>
  func.return %q : tensor<1x1x1x2x!quant.uniform<i8:f32, 0.0625>>
}
// CHECK: %[[T:.*]] = graph.binary mul
// CHECK: graph.quantize %[[T]] :

// -----

// A factor is no addend, however small; nor is nothing at all.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.0625>>) -> (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  %a = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.0625>>) -> tensor<4xf32>
  %c = graph.constant dense<0.015625> : tensor<f32> : tensor<f32>
  %d = graph.constant dense<[0.0, 0.015625, 0.015625, 0.015625]> : tensor<4xf32> : tensor<4xf32>
  %t = graph.binary mul %a, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %u = graph.binary add %a, %d : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = graph.quantize %t : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %r = graph.quantize %u : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %q, %r : tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>
}
// CHECK: %[[T:.*]] = graph.binary mul
// CHECK: %[[U:.*]] = graph.binary add
// CHECK: graph.quantize %[[T]]
// CHECK: graph.quantize %[[U]]
