// RUN: ceras-opt %s --split-input-file --widen-weights 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// RUN: ceras-opt %s --split-input-file --widen-weights="target=interp" | filecheck %s --check-prefix=KEPT
// RUN: %if vta %{ ceras-opt %s --split-input-file --widen-weights="target=vta" 2>&1 >/dev/null | filecheck %s --check-prefix=NAMED %}

// Integers, scales and zero points remain; so does what has 8 bits or more.
// NOTE:      widen-weights: note: 1 layer with 2-bit weights is stored as int8: the target stores weights in 8 bits
// NOTE-NEXT: widen-weights: note: 2 layers with 4-bit weights are stored as int8: the target stores weights in 8 bits
// NAMED:     2 layers with 4-bit weights are stored as int8: target vta stores weights in
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    graph.constant dense<[{{\[}}7, -8]]> : tensor<1x2xi8> : tensor<1x2x!quant.uniform<i8:f32:0, {0.5:-1}>>
// CHECK-NEXT:    graph.constant dense<100> : tensor<1xi32> : tensor<1x!quant.uniform<i32:f32:0, {0.25}>>
// CHECK-NEXT:    graph.matmul {{.*}} tensor<1x2x!quant.uniform<i8:f32:0, {0.5:-1}>>) -> tensor<1x1x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    graph.constant dense<[{{\[}}3, 0]]> : tensor<1x2xui8> : tensor<1x2x!quant.uniform<u8:f32, 0.5>>
// CHECK-NEXT:    graph.dequantize
// CHECK-NEXT:    graph.matmul
// KEPT-LABEL: func.func @main(
// KEPT-NEXT:    graph.constant dense<[{{\[}}7, -8]]> : tensor<1x2xi4>
// KEPT:         graph.constant dense<[{{\[}}3, 0]]> : tensor<1x2xui2>
func.func @main(%x: tensor<1x2x!quant.uniform<i8:f32, 0.5>>, %z: tensor<1x2xf32>) -> (tensor<1x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x1xf32>) {
  %w = graph.constant dense<[[7, -8]]> : tensor<1x2xi4> : tensor<1x2x!quant.uniform<i4:f32:0, {0.5:-1}>>
  %b = graph.constant dense<100> : tensor<1xi32> : tensor<1x!quant.uniform<i32:f32:0, {0.25}>>
  %0 = graph.matmul %x, %w bias %b : tensor<1x!quant.uniform<i32:f32:0, {0.25}>> {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x!quant.uniform<i4:f32:0, {0.5:-1}>>) -> tensor<1x1x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.matmul %x, %w {requant = #graph.requant<shift = 1, rounding = half_up, low = 0, high = 127>} : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x!quant.uniform<i4:f32:0, {0.5:-1}>>) -> tensor<1x1x!quant.uniform<i8:f32, 0.5>>
  %v = graph.constant dense<[[3, 0]]> : tensor<1x2xui2> : tensor<1x2x!quant.uniform<u2:f32, 0.5>>
  %r = graph.dequantize %v : (tensor<1x2x!quant.uniform<u2:f32, 0.5>>) -> tensor<1x2xf32>
  %2 = graph.matmul %z, %r : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %0, %1, %2 : tensor<1x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x1xf32>
}

// -----

// Rows of a table get the type of the table. A value with a requantization keeps its type.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.constant dense<[{{\[}}1], [2]]> : tensor<2x1xi8> : tensor<2x1x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    graph.take {{.*}} -> tensor<2x1x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    graph.reshape {{.*}} -> tensor<2x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    graph.requantize {{.*}} -> tensor<2x!quant.uniform<i4:f32, 0.5>>
// CHECK-NEXT:    graph.dequantize
func.func @main(%i: tensor<2xi64>) -> tensor<2xf32> {
  %t = graph.constant dense<[[1], [2]]> : tensor<2x1xi4> : tensor<2x1x!quant.uniform<i4:f32, 0.5>>
  %0 = graph.take %t[%i] : (tensor<2x1x!quant.uniform<i4:f32, 0.5>>, tensor<2xi64>) -> tensor<2x1x!quant.uniform<i4:f32, 0.5>>
  %1 = graph.reshape %0 : (tensor<2x1x!quant.uniform<i4:f32, 0.5>>) -> tensor<2x!quant.uniform<i4:f32, 0.5>>
  %2 = graph.requantize %1 {requant = #graph.requant<shift = 0, rounding = half_up, low = -8, high = 1>} : (tensor<2x!quant.uniform<i4:f32, 0.5>>) -> tensor<2x!quant.uniform<i4:f32, 0.5>>
  %3 = graph.dequantize %2 : (tensor<2x!quant.uniform<i4:f32, 0.5>>) -> tensor<2xf32>
  func.return %3 : tensor<2xf32>
}
