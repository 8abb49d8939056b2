// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @constant
// CHECK: graph.constant dense<[1, -2]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32, 0.5>>
// CHECK: graph.constant dense<1.500000e+00> : tensor<4xf32> : tensor<4xf32>
func.func @constant() {
  %0 = graph.constant dense<[1, -2]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.constant dense<1.5> : tensor<4xf32> : tensor<4xf32>
  func.return
}

// CHECK-LABEL: func.func @conv2d
// CHECK: graph.conv2d %{{.*}}, %{{.*}} : (tensor<1x8x8x4xf32>, tensor<6x3x3x2xf32>) -> tensor<1x3x3x6xf32>
// CHECK: graph.conv2d %{{.*}}, %{{.*}} {{.*}}ordered{{.*}} : (tensor<1x8x8x4xf32>, tensor<6x3x3x2xf32>)
// CHECK: graph.conv2d %{{.*}}, %{{.*}} bias %{{.*}} : tensor<6xf32> residual %{{.*}} : tensor<1x3x3x6xf32> {{.*}}activation = #graph.function<clip, 0.0, 6.0>
func.func @conv2d(%x: tensor<1x8x8x4xf32>, %w: tensor<6x3x3x2xf32>, %b: tensor<6xf32>) {
  %0 = graph.conv2d %x, %w {strides = array<i64: 2, 2>, groups = 2 : i64} : (tensor<1x8x8x4xf32>, tensor<6x3x3x2xf32>) -> tensor<1x3x3x6xf32>
  %2 = graph.conv2d %x, %w {ordered, strides = array<i64: 2, 2>, groups = 2 : i64} : (tensor<1x8x8x4xf32>, tensor<6x3x3x2xf32>) -> tensor<1x3x3x6xf32>
  %1 = graph.conv2d %x, %w bias %b : tensor<6xf32> residual %0 : tensor<1x3x3x6xf32> {strides = array<i64: 2, 2>, groups = 2 : i64, activation = #graph.function<clip, 0.0, 6.0>} : (tensor<1x8x8x4xf32>, tensor<6x3x3x2xf32>) -> tensor<1x3x3x6xf32>
  func.return
}

// CHECK-LABEL: func.func @quantized_matmul
// CHECK: graph.matmul %{{.*}}, %{{.*}} bias %{{.*}} : tensor<2x!quant.uniform<i32:f32, 0.25>> residual %{{.*}} : tensor<1x2x!quant.uniform<i8:f32, 1.0>>
// CHECK-SAME: requant = #graph.requant<shift = 3, rounding = half_up, low = 0, high = 127>
// CHECK-SAME: residual_shift = 2 : i64
func.func @quantized_matmul(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x!quant.uniform<i32:f32, 0.25>>, %r: tensor<1x2x!quant.uniform<i8:f32, 1.0>>) {
  %0 = graph.matmul %x, %w bias %b : tensor<2x!quant.uniform<i32:f32, 0.25>> residual %r : tensor<1x2x!quant.uniform<i8:f32, 1.0>> {requant = #graph.requant<shift = 3, rounding = half_up, low = 0, high = 127>, residual_shift = 2 : i64} : (tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 2.0>>
  func.return
}

// CHECK-LABEL: func.func @elementwise
// CHECK: graph.unary <swish> %{{.*}} : tensor<1x4xf32>
// CHECK: graph.unary <clip, -inf, 6.0> %{{.*}} : tensor<1x4xf32>
// CHECK: graph.binary add %{{.*}}, %{{.*}} : (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
// CHECK: graph.softmax %{{.*}} {axis = 1 : i64} : tensor<1x4xf32>
func.func @elementwise(%x: tensor<1x4xf32>, %c: tensor<4xf32>) {
  %0 = graph.unary <swish> %x : tensor<1x4xf32>
  %1 = graph.unary <clip, -inf, 6.0> %0 : tensor<1x4xf32>
  %2 = graph.binary add %x, %c : (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  %3 = graph.softmax %2 {axis = 1 : i64} : tensor<1x4xf32>
  func.return
}

// CHECK-LABEL: func.func @quantized_elementwise
// CHECK: graph.quantize
// CHECK: graph.quantize %{{.*}} {rounding = #graph<rounding half_away>} : (tensor<1x4xf32>)
// CHECK: graph.scaled_quantize %{{.*}} {factor = 5.350000e+01 : f32} : (tensor<1x4xf32>)
// CHECK: graph.lookup %{{.*}}, dense<3> : tensor<256xi8>
// CHECK: graph.lookup %{{.*}}, dense<3> : tensor<256xi8> : (tensor<1x4xui8>) -> tensor<1x4x!quant.uniform<i8:f32, 1.0>>
// CHECK: graph.requantize %{{.*}} {requant = #graph.requant<multiplier = 4, shift = 0, rounding = half_up, low = -128, high = 127>}
// CHECK: graph.dequantize
func.func @quantized_elementwise(%x: tensor<1x4xf32>, %p: tensor<1x4xui8>) {
  %0 = graph.quantize %x : (tensor<1x4xf32>) -> tensor<1x4x!quant.uniform<i8:f32, 0.5>>
  %away = graph.quantize %x {rounding = #graph<rounding half_away>} : (tensor<1x4xf32>) -> tensor<1x4x!quant.uniform<i8:f32, 0.5>>
  %scaled = graph.scaled_quantize %x {factor = 53.5 : f32} : (tensor<1x4xf32>) -> tensor<1x4x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.lookup %0, dense<3> : tensor<256xi8> : (tensor<1x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4x!quant.uniform<i8:f32, 1.0>>
  %pixels = graph.lookup %p, dense<3> : tensor<256xi8> : (tensor<1x4xui8>) -> tensor<1x4x!quant.uniform<i8:f32, 1.0>>
  %2 = graph.requantize %1 {requant = #graph.requant<multiplier = 4, shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x!quant.uniform<i8:f32, 1.0>>) -> tensor<1x4x!quant.uniform<i8:f32, 0.25>>
  %3 = graph.dequantize %2 : (tensor<1x4x!quant.uniform<i8:f32, 0.25>>) -> tensor<1x4xf32>
  func.return
}

// CHECK-LABEL: func.func @windows
// CHECK: graph.pool2d max
// CHECK: graph.pool2d average %{{.*}} {{{.*}}count_include_pad = true
// CHECK: graph.resize nearest
func.func @windows(%x: tensor<1x8x8x4xf32>) {
  %0 = graph.pool2d max %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32>
  %1 = graph.pool2d average %x {kernel = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>, count_include_pad = true} : (tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>
  %2 = graph.resize nearest %0 coordinates asymmetric rounding floor {scales = array<f64: 2.0, 2.0>} : (tensor<1x4x4x4xf32>) -> tensor<1x8x8x4xf32>
  func.return
}

// CHECK-LABEL: func.func @layout
// CHECK: graph.transpose %{{.*}} {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x8x8x4xf32>) -> tensor<1x4x8x8xf32>
// CHECK: graph.reshape %{{.*}} : (tensor<1x4x8x8xf32>) -> tensor<1x256xf32>
// CHECK: graph.concat %{{.*}}, %{{.*}} {axis = 3 : i64} : (tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32>) -> tensor<1x8x8x8xf32>
func.func @layout(%x: tensor<1x8x8x4xf32>) {
  %0 = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x8x8x4xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.reshape %0 : (tensor<1x4x8x8xf32>) -> tensor<1x256xf32>
  %2 = graph.concat %x, %x {axis = 3 : i64} : (tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32>) -> tensor<1x8x8x8xf32>
  func.return
}
