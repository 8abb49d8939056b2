// RUN: ceras-opt %s --fold-factor --split-input-file | filecheck %s

// A factor on either side, of any number of dimensions, goes into the quantization.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4xf32>) -> (tensor<4x!quant.uniform<i8:f32, 1.0:-14>>, tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  %c = graph.constant dense<53.5> : tensor<f32> : tensor<f32>
  %d = graph.constant dense<-0.1> : tensor<1xf32> : tensor<1xf32>
  %a = graph.binary mul %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = graph.binary mul %d, %x : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = graph.quantize %a : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.0:-14>>
  %r = graph.quantize %b : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %q, %r : tensor<4x!quant.uniform<i8:f32, 1.0:-14>>, tensor<4x!quant.uniform<i8:f32, 0.5>>
}
// CHECK-SAME: (%[[X:[a-z]*]]: tensor<4xf32>)
// CHECK-NEXT: graph.scaled_quantize %[[X]] {factor = 5.350000e+01 : f32} : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.0:-14>>
// CHECK-NEXT: graph.scaled_quantize %[[X]] {factor = -1.000000e-01 : f32}

// -----

// Left: a product that is read twice, the first of two factors, factors of channels, an
// activation, an infinity, and a constant that adds a dimension.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  %c = graph.constant dense<3.0> : tensor<f32> : tensor<f32>
  %k = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> : tensor<4xf32>
  %i = graph.constant dense<0x7F800000> : tensor<f32> : tensor<f32>
  %w = graph.constant dense<3.0> : tensor<1x1xf32> : tensor<1x1xf32>
  %twice = graph.binary mul %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %0 = graph.quantize %twice : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %channels = graph.binary mul %x, %k : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.quantize %channels : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %relu = graph.binary mul %x, %c {activation = #graph.function<relu>} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = graph.quantize %relu : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %infinite = graph.binary mul %x, %i : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.quantize %infinite : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %wide = graph.binary mul %x, %w : (tensor<4xf32>, tensor<1x1xf32>) -> tensor<1x4xf32>
  %4 = graph.quantize %wide : (tensor<1x4xf32>) -> tensor<1x4x!quant.uniform<i8:f32, 0.5>>
  %first = graph.binary mul %k, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %second = graph.binary mul %first, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = graph.quantize %second : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %twice, %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>
}
// CHECK: %[[TWICE:.*]] = graph.binary mul
// CHECK-NEXT: graph.quantize %[[TWICE]] :
// CHECK-NEXT: %[[CHANNELS:.*]] = graph.binary mul
// CHECK-NEXT: graph.quantize %[[CHANNELS]] :
// CHECK-NEXT: %[[RELU:.*]] = graph.binary mul
// CHECK-NEXT: graph.quantize %[[RELU]] :
// CHECK-NEXT: %[[INFINITE:.*]] = graph.binary mul
// CHECK-NEXT: graph.quantize %[[INFINITE]] :
// CHECK-NEXT: %[[WIDE:.*]] = graph.binary mul
// CHECK-NEXT: graph.quantize %[[WIDE]] :
// CHECK-NEXT: %[[FIRST:.*]] = graph.binary mul
// CHECK-NEXT: graph.scaled_quantize %[[FIRST]] {factor = 3.000000e+00 : f32} :
