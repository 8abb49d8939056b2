// RUN: ceras-opt %s --unfold-qdq --split-input-file 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// RUN: ceras-opt %s --unfold-qdq="target=c" --split-input-file | filecheck %s --check-prefix=C
// C-NOT: graph.dequantize
// NOTE: unfold-qdq: note: 1 operation is rounded as between Q/DQ, not as the kernels of TensorFlow Lite; each result can differ by a unit

func.func @main(%x: tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5:-10>> {
  %w = graph.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  %b = graph.constant dense<[10, 20]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32:0, {0.15, 0.075}>>
  %y = graph.matmul %x, %w bias %b : tensor<2x!quant.uniform<i32:f32:0, {0.15, 0.075}>> {requant = #graph.requant<multiplier = [1288490189, 644245094], shift = 32, rounding = double_round, zero_point = -10, low = -10, high = 127>} : (tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>, tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5:-10>>
  func.return %y : tensor<1x2x!quant.uniform<i8:f32, 0.5:-10>>
}

// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = graph.dequantize %{{.*}} : (tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>) -> tensor<1x2xf32>
// CHECK-NEXT: %[[W:.*]] = graph.dequantize %{{.*}} : (tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<2x2xf32>
// CHECK-NEXT: %[[B:.*]] = graph.dequantize %{{.*}} : (tensor<2x!quant.uniform<i32:f32:0, {0.15, 0.075}>>) -> tensor<2xf32>
// CHECK-NEXT: %[[Y:.*]] = graph.matmul %[[X]], %[[W]] bias %[[B]] : tensor<2xf32> {activation = #graph.function<relu>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT: %[[Q:.*]] = graph.quantize %[[Y]] : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5:-10>>
// CHECK-NEXT: func.return %[[Q]]

// -----

func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>, %z: tensor<2x!quant.uniform<i8:f32, 0.3:1>>) -> tensor<2x!quant.uniform<i8:f32, 0.8>> {
  %y = graph.binary add %x, %z {lhs_shift = 20 : i64, rhs_shift = 20 : i64, lhs_requant = #graph.requant<multiplier = 1073741824, shift = 31, rounding = double_round, low = -2147483648, high = 2147483647>, rhs_requant = #graph.requant<multiplier = 1288490189, shift = 32, rounding = double_round, low = -2147483648, high = 2147483647>, requant = #graph.requant<multiplier = 1342177280, shift = 50, rounding = double_round, low = -10, high = 20>} : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.3:1>>) -> tensor<2x!quant.uniform<i8:f32, 0.8>>
  func.return %y : tensor<2x!quant.uniform<i8:f32, 0.8>>
}

// CHECK-LABEL: func.func @main
// CHECK: graph.binary add %{{.*}}, %{{.*}} {activation = #graph.function<clip, -8.0, 16.0>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>

// -----

// The multiplier is not that of the scales, so the operation has no float form.
func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>, %z: tensor<2x!quant.uniform<i8:f32, 0.3>>) -> tensor<2x!quant.uniform<i8:f32, 0.8>> {
  %y = graph.binary mul %x, %z {requant = #graph.requant<multiplier = 1073741824, shift = 50, rounding = double_round, low = -10, high = 20>} : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.3>>) -> tensor<2x!quant.uniform<i8:f32, 0.8>>
  func.return %y : tensor<2x!quant.uniform<i8:f32, 0.8>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: graph.binary mul
// CHECK-NEXT: func.return

// -----

func.func @main(%x: tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x1x1x2x!quant.uniform<i8:f32, 0.5:3>> {
  %y = graph.pool2d average %x {kernel = array<i64: 4, 4>, divides, requant = #graph.requant<shift = 0, rounding = half_away, zero_point = 3, low = 3, high = 100>} : (tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x1x1x2x!quant.uniform<i8:f32, 0.5:3>>
  func.return %y : tensor<1x1x1x2x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = graph.pool2d average %{{.*}} {kernel = array<i64: 4, 4>} : (tensor<1x4x4x2xf32>) -> tensor<1x1x1x2xf32>
// CHECK-NEXT: graph.unary <clip, 0.0, 48.5> %[[A]] : tensor<1x1x1x2xf32>

// -----

// A known function replaces its table, and other tables remain.
func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.25>> {
  %t = graph.lookup %x, dense<1> : tensor<256xi8> {graph.function = #graph.function<tanh>} : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.25>>
  %y = graph.lookup %t, dense<2> : tensor<256xi8> : (tensor<2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x!quant.uniform<i8:f32, 0.25>>
  func.return %y : tensor<2x!quant.uniform<i8:f32, 0.25>>
}

// CHECK-LABEL: func.func @main
// CHECK: %[[T:.*]] = graph.unary <tanh> %{{.*}} : tensor<2xf32>
// CHECK-NEXT: %[[Q:.*]] = graph.quantize %[[T]]
// CHECK-NEXT: graph.lookup %[[Q]]

// -----

// Interpolation is in float, and ties are to even.
func.func @main(%x: tensor<1x2x2x1xf32>) -> tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>> {
  %q = graph.quantize %x {rounding = #graph<rounding half_away>} : (tensor<1x2x2x1xf32>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.resize linear %q coordinates half_pixel rounding floor {scales = array<f64: 2.0, 2.0>} : (tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>
}

// CHECK-LABEL: func.func @main
// CHECK: graph.quantize %{{.*}} : (tensor<1x2x2x1xf32>)
// CHECK: %[[R:.*]] = graph.resize linear %{{.*}} coordinates half_pixel rounding floor {scales = array<f64: {{.*}}>} : (tensor<1x2x2x1xf32>) -> tensor<1x4x4x1xf32>
// CHECK-NEXT: graph.quantize %[[R]] : (tensor<1x4x4x1xf32>)
