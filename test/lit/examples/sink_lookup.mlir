// RUN: ceras-opt %s --load-pass-plugin=%examples/plugin/sink_lookup.py --sink-lookup | filecheck %s

// The table rises: pooling comes first, and a quarter of the numbers are looked up.
// CHECK-LABEL: func.func @rises
// CHECK-NEXT:    graph.pool2d max %x
// CHECK-NEXT:    graph.lookup
func.func @rises(%x: tensor<1x4x4x1x!quant.uniform<i8:f32, 1.0>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>> {
  %0 = graph.lookup %x, dense<7> : tensor<256xi8> : (tensor<1x4x4x1x!quant.uniform<i8:f32, 1.0>>) -> tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.pool2d max %0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  func.return %1 : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
}

// An average of entries is no entry of the average.
// CHECK-LABEL: func.func @average
// CHECK-NEXT:    graph.lookup
// CHECK-NEXT:    graph.pool2d
func.func @average(%x: tensor<1x4x4x1x!quant.uniform<i8:f32, 1.0>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>> {
  %0 = graph.lookup %x, dense<7> : tensor<256xi8> : (tensor<1x4x4x1x!quant.uniform<i8:f32, 1.0>>) -> tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.pool2d average %0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  func.return %1 : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
}
