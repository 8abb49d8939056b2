// RUN: ceras-opt %s --widen-activations 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// RUN: ceras-opt %s --widen-activations="target=interp" | filecheck %s --check-prefix=KEPT

// A clip or the sign limits the integers. Moved values follow, and 8 bits remain.
// NOTE:      widen-activations: note: 1 activation of 1 bits in int8: the target stores activations in 8 bits
// NOTE-NEXT: widen-activations: note: 2 activations of 4 bits in int8: the target stores activations in 8 bits
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %[[C:.*]] = graph.unary <clip, -0.5, 7.0> %{{.*}} : tensor<2xf32>
// CHECK-NEXT:    graph.quantize %[[C]] : (tensor<2xf32>) -> tensor<2x!quant.uniform<u8:f32, 0.5:1>>
// CHECK-NEXT:    graph.reshape {{.*}} -> tensor<1x2x!quant.uniform<u8:f32, 0.5:1>>
// CHECK-NEXT:    %[[L:.*]] = graph.constant dense<[-4.000000e+00, -2.000000e+00]>
// CHECK-NEXT:    %[[H:.*]] = graph.constant dense<[3.500000e+00, 1.750000e+00]>
// CHECK-NEXT:    %[[A:.*]] = graph.binary max %{{.*}}, %[[L]]
// CHECK-NEXT:    %[[B:.*]] = graph.binary min %[[A]], %[[H]]
// CHECK-NEXT:    graph.quantize %[[B]] : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
// CHECK-NEXT:    %[[Z:.*]] = graph.constant dense<0.000000e+00> : tensor<1xf32>
// CHECK-NEXT:    %[[M:.*]] = graph.constant dense<-5.000000e-01> : tensor<f32>
// CHECK-NEXT:    %[[P:.*]] = graph.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT:    %[[G:.*]] = graph.compare less_or_equal %[[Z]], %{{.*}}
// CHECK-NEXT:    %[[S:.*]] = graph.select %[[G]], %[[P]], %[[M]]
// CHECK-NEXT:    graph.quantize %[[S]] : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    graph.quantize %{{.*}} : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
// KEPT:          tensor<2x!quant.uniform<i1:f32, 0.5>>
func.func @main(%x: tensor<2xf32>) {
  %0 = graph.quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<u4:f32, 0.5:1>>
  %1 = graph.reshape %0 : (tensor<2x!quant.uniform<u4:f32, 0.5:1>>) -> tensor<1x2x!quant.uniform<u4:f32, 0.5:1>>
  %2 = graph.quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i4:f32:0, {0.5, 0.25}>>
  %3 = graph.quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i1:f32, 0.5>>
  %4 = graph.quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  func.return
}
