// RUN: ceras-opt %s --fold-qdq="rules=thresholds thresholds=true" --split-input-file 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// RUN: ceras-opt %s --fold-qdq="rules=thresholds thresholds=true" --split-input-file 2>/dev/null | ceras-opt --split-input-file --fold-qdq="rules=thresholds thresholds=true" 2>/dev/null | filecheck %s

!x = tensor<1x2x!quant.uniform<i8:f32, 0.5>>
!w = tensor<2x2x!quant.uniform<i2:f32:0, {1.0, 0.5}>>

// The second channel has a negative factor: it counts down from the highest result.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %[[W:.*]] = graph.constant dense<1> : tensor<2x2xi2>
// CHECK-NEXT:    %[[S:.*]] = graph.matmul %{{.*}}, %[[W]] {requant = #graph.requant<shift = 0, rounding = half_up, low = -2147483648, high = 2147483647>}
// CHECK-SAME:      -> tensor<1x2x!quant.uniform<i32:f32:1, {0.5, 0.25}>>
// CHECK-NEXT:    %[[T:.*]] = graph.constant dense<[{{\[}}2, -40], [5, -23], [9, -8]]> : tensor<3x2xi32> : tensor<3x2xi32>
// CHECK-NEXT:    %[[Y:.*]] = graph.threshold %[[S]], %[[T]] {offset = array<i64: 0, 3>, step = array<i64: 1, -1>}
// CHECK-SAME:      -> tensor<1x2x!quant.uniform<u2:f32, 1.0>>
// CHECK-NEXT:    graph.dequantize %[[Y]]
// NOTE: fold-qdq: note: 1 layer before float operations: compare sums with thresholds
func.func @main(%x: !x) -> tensor<1x2xf32> {
  %r = graph.dequantize %x : (!x) -> tensor<1x2xf32>
  %w = graph.constant dense<1> : tensor<2x2xi2> : !w
  %v = graph.dequantize %w : (!w) -> tensor<2x2xf32>
  %s = graph.matmul %r, %v : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %c = graph.constant dense<[0.6, -0.25]> : tensor<2xf32> : tensor<2xf32>
  %n = graph.binary mul %s, %c : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %b = graph.constant dense<0.0> : tensor<1xf32> : tensor<1xf32>
  %a = graph.binary add %n, %b {activation = #graph.function<relu>} : (tensor<1x2xf32>, tensor<1xf32>) -> tensor<1x2xf32>
  %q = graph.quantize %a : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<u2:f32, 1.0>>
  %y = graph.dequantize %q : (tensor<1x2x!quant.uniform<u2:f32, 1.0>>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}

// -----

!x = tensor<1x2x!quant.uniform<i8:f32, 0.5>>
!w = tensor<1x2x!quant.uniform<i2:f32, 1.0>>

// The sign of a sum, without other operations, is a threshold. A float value with another consumer, and a sigmoid, remain.
// CHECK-LABEL: func.func @main
// CHECK:         %[[T:.*]] = graph.constant dense<0> : tensor<1x1xi32> : tensor<1x1xi32>
// CHECK-NEXT:    graph.threshold %{{.*}}, %[[T]] {offset = array<i64: -1>, step = array<i64: 2>} {{.*}} -> tensor<1x1x!quant.uniform<i1:f32, 1.0>>
// CHECK:         graph.matmul {{.*}} -> tensor<1x1xf32>
// CHECK:         graph.quantize
// CHECK:         graph.unary <sigmoid>
// CHECK:         graph.quantize
func.func @main(%x: !x) -> (tensor<1x1x!quant.uniform<i1:f32, 1.0>>, tensor<1x1xf32>, tensor<1x1x!quant.uniform<u2:f32, 1.0>>, tensor<1x1x!quant.uniform<u2:f32, 1.0>>) {
  %r = graph.dequantize %x : (!x) -> tensor<1x2xf32>
  %w = graph.constant dense<1> : tensor<1x2xi2> : !w
  %v = graph.dequantize %w : (!w) -> tensor<1x2xf32>
  %s = graph.matmul %r, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %0 = graph.quantize %s : (tensor<1x1xf32>) -> tensor<1x1x!quant.uniform<i1:f32, 1.0>>
  %c = graph.constant dense<0.3> : tensor<1xf32> : tensor<1xf32>
  %t = graph.matmul %r, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %1 = graph.binary mul %t, %c : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>
  %2 = graph.quantize %1 : (tensor<1x1xf32>) -> tensor<1x1x!quant.uniform<u2:f32, 1.0>>
  %u = graph.matmul %r, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %3 = graph.unary <sigmoid> %u : tensor<1x1xf32>
  %4 = graph.quantize %3 : (tensor<1x1xf32>) -> tensor<1x1x!quant.uniform<u2:f32, 1.0>>
  func.return %0, %1, %2, %4 : tensor<1x1x!quant.uniform<i1:f32, 1.0>>, tensor<1x1xf32>, tensor<1x1x!quant.uniform<u2:f32, 1.0>>, tensor<1x1x!quant.uniform<u2:f32, 1.0>>
}

// -----

!x = tensor<1x2x!quant.uniform<i8:f32, 0.5>>
!w = tensor<1x2x!quant.uniform<i2:f32, 1.0>>

// 255 thresholds for 2 weights are too many.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     graph.threshold
// NOTE: fold-qdq: note: 1 layer before float operations: remain float
func.func @main(%x: !x) -> tensor<1x1x!quant.uniform<u8:f32, 0.125>> {
  %r = graph.dequantize %x : (!x) -> tensor<1x2xf32>
  %w = graph.constant dense<1> : tensor<1x2xi2> : !w
  %v = graph.dequantize %w : (!w) -> tensor<1x2xf32>
  %s = graph.matmul %r, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %c = graph.constant dense<0.3> : tensor<1xf32> : tensor<1xf32>
  %1 = graph.binary mul %s, %c : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>
  %2 = graph.quantize %1 : (tensor<1x1xf32>) -> tensor<1x1x!quant.uniform<u8:f32, 0.125>>
  func.return %2 : tensor<1x1x!quant.uniform<u8:f32, 0.125>>
}
