// RUN: ceras-opt %s --fold-qdq="rules=sums thresholds=true" | filecheck %s

!x = tensor<1x2x!quant.uniform<i8:f32, 0.5>>
!w = tensor<1x2x!quant.uniform<i2:f32:0, {1.0}>>
!v = tensor<1x2x!quant.uniform<i8:f32, 1.0>>

// The bias and the function follow in float. Weights of 8 bits, and a layer before a quantization, remain.
// CHECK-LABEL: func.func @main
// CHECK:         %[[S:.*]] = graph.matmul %{{.*}}, %{{.*}} {requant = #graph.requant<shift = 0, rounding = half_up, low = -2147483648, high = 2147483647>}
// CHECK-SAME:      -> tensor<1x1x!quant.uniform<i32:f32:1, {0.5}>>
// CHECK-NEXT:    %[[R:.*]] = graph.dequantize %[[S]]
// CHECK-NEXT:    %[[B:.*]] = graph.binary add %[[R]], %{{.*}} : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:    graph.unary <relu> %[[B]]
// CHECK:         graph.matmul {{.*}} -> tensor<1x1xf32>
// CHECK:         graph.matmul {{.*}} -> tensor<1x1xf32>
// CHECK:         graph.quantize
func.func @main(%x: !x) -> (tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1x!quant.uniform<i8:f32, 0.5>>) {
  %r = graph.dequantize %x : (!x) -> tensor<1x2xf32>
  %w = graph.constant dense<1> : tensor<1x2xi2> : !w
  %wr = graph.dequantize %w : (!w) -> tensor<1x2xf32>
  %b = graph.constant dense<0.3> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.matmul %r, %wr bias %b : tensor<1xf32> {activation = #graph.function<relu>} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %v = graph.constant dense<1> : tensor<1x2xi8> : !v
  %vr = graph.dequantize %v : (!v) -> tensor<1x2xf32>
  %1 = graph.matmul %r, %vr : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %2 = graph.matmul %r, %wr : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %3 = graph.unary <sigmoid> %2 : tensor<1x1xf32>
  %4 = graph.quantize %3 : (tensor<1x1xf32>) -> tensor<1x1x!quant.uniform<i8:f32, 0.5>>
  func.return %0, %1, %4 : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1x!quant.uniform<i8:f32, 0.5>>
}
