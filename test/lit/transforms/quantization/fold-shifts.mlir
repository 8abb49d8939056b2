// RUN: ceras-opt %s --fold-shifts --split-input-file 2>/dev/null | filecheck %s

!x = tensor<1x2x!quant.uniform<i8:f32, 0.3>>
!w = tensor<1x2x!quant.uniform<i2:f32, 0.7>>

// Thresholds need no multiplier, and the last layer returns sums.
// CHECK-LABEL: func.func @main
// CHECK:         graph.threshold
// CHECK-NOT:     graph.quantize
// CHECK:         graph.matmul {{.*}} -> tensor<1x1x!quant.uniform<i32:f32, 0.7>>
// CHECK-NEXT:    graph.dequantize
func.func @main(%x: !x) -> tensor<1x1xf32> {
  %r = graph.dequantize %x : (!x) -> tensor<1x2xf32>
  %w = graph.constant dense<1> : tensor<1x2xi2> : !w
  %v = graph.dequantize %w : (!w) -> tensor<1x2xf32>
  %s = graph.matmul %r, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %c = graph.constant dense<0.3> : tensor<1xf32> : tensor<1xf32>
  %n = graph.binary mul %s, %c : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>
  %q = graph.quantize %n : (tensor<1x1xf32>) -> tensor<1x1x!quant.uniform<i2:f32, 1.0>>
  %d = graph.dequantize %q : (tensor<1x1x!quant.uniform<i2:f32, 1.0>>) -> tensor<1x1xf32>
  %a = graph.constant dense<1> : tensor<1x1xi2> : tensor<1x1x!quant.uniform<i2:f32, 0.7>>
  %b = graph.dequantize %a : (tensor<1x1x!quant.uniform<i2:f32, 0.7>>) -> tensor<1x1xf32>
  %y = graph.matmul %d, %b : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}

// -----

!x = tensor<1x2x!quant.uniform<i8:f32, 0.3>>
!w = tensor<1x2x!quant.uniform<i2:f32, 0.7>>

// The requantization of a layer would need a multiplier.
// CHECK-LABEL: func.func @main
// CHECK:         graph.matmul {{.*}} -> tensor<1x1xf32>
// CHECK-NEXT:    graph.quantize
func.func @main(%x: !x) -> tensor<1x1x!quant.uniform<i8:f32, 1.0>> {
  %r = graph.dequantize %x : (!x) -> tensor<1x2xf32>
  %w = graph.constant dense<1> : tensor<1x2xi2> : !w
  %v = graph.dequantize %w : (!w) -> tensor<1x2xf32>
  %s = graph.matmul %r, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %q = graph.quantize %s : (tensor<1x1xf32>) -> tensor<1x1x!quant.uniform<i8:f32, 1.0>>
  func.return %q : tensor<1x1x!quant.uniform<i8:f32, 1.0>>
}

// -----

!x = tensor<1x2x!quant.uniform<i8:f32, 0.3>>

// A float function before a quantization remains float.
// CHECK-LABEL: func.func @main
// CHECK:         graph.softmax
func.func @main(%x: !x) -> tensor<1x2x!quant.uniform<i8:f32, 1.0>> {
  %r = graph.dequantize %x : (!x) -> tensor<1x2xf32>
  %s = graph.softmax %r {axis = 1 : i64} : tensor<1x2xf32>
  %q = graph.quantize %s : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 1.0>>
  func.return %q : tensor<1x2x!quant.uniform<i8:f32, 1.0>>
}
