// RUN: ceras-opt %s --split-input-file --float-weights 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// RUN: ceras-opt %s --split-input-file --float-weights=quantizes=true 2>&1 | filecheck %s --check-prefix=MARKED

// Two layers with common weights. Weights of 8 bits are not changed.
// NOTE:     float-weights: note: 2 layers with 4-bit weights are computed in float32
// NOTE-NOT: note
// Before quantization, layers are marked for keep-weights instead.
// MARKED-NOT:  note
// MARKED-LABEL: func.func @main(
// MARKED-NEXT:    graph.constant
// MARKED-NEXT:    graph.matmul {{.*}} {graph.stored_type = !quant.uniform<u4:f32:1, {0.5:6, 1.5:3}>} :
// MARKED-NEXT:    graph.matmul {{.*}} {graph.stored_type = !quant.uniform<u4:f32:1, {0.5:6, 1.5:3}>} :
// MARKED-NOT:     graph.stored_type
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[W:.*]] = graph.constant dense<[{{\[}}4.500000e+00, -4.500000e+00]]> : tensor<1x2xf32> : tensor<1x2xf32>
// CHECK-NEXT:    graph.matmul %x, %[[W]]
// CHECK-NEXT:    graph.matmul %x, %[[W]]
// CHECK-NEXT:    graph.constant dense<[{{\[}}7, -8]]> : tensor<1x2xi8>
// CHECK-NEXT:    graph.dequantize
func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>) {
  %q = graph.constant dense<[[15, 0]]> : tensor<1x2xui4> : tensor<1x2x!quant.uniform<u4:f32:1, {0.5:6, 1.5:3}>>
  %w = graph.dequantize %q : (tensor<1x2x!quant.uniform<u4:f32:1, {0.5:6, 1.5:3}>>) -> tensor<1x2xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %1 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %p = graph.constant dense<[[7, -8]]> : tensor<1x2xi8> : tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  %v = graph.dequantize %p : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2xf32>
  %2 = graph.matmul %x, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %0, %1, %2 : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>
}

// -----

// An activation is quantized, so the layer will be an integer layer.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.constant dense<[{{\[}}7, -8]]> : tensor<1x2xi4>
func.func @main(%x: tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1xf32> {
  %a = graph.dequantize %x : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2xf32>
  %p = graph.constant dense<[[7, -8]]> : tensor<1x2xi4> : tensor<1x2x!quant.uniform<i4:f32, 0.5>>
  %v = graph.dequantize %p : (tensor<1x2x!quant.uniform<i4:f32, 0.5>>) -> tensor<1x2xf32>
  %0 = graph.matmul %a, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %0 : tensor<1x1xf32>
}
