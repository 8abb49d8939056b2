// RUN: ceras-opt %s --fuse-epilogues="rules=activations" --print-debuginfo | filecheck %s

// Into all three kinds of operation, whatever the function; the name is the producer's, the
// range that of the value that it now makes.
// CHECK-LABEL: func.func @fuse(
// CHECK-NEXT:    graph.conv2d %{{.*}} {activation = #graph.function<relu>} : {{.*}} loc(fused["conv", "relu"])
// CHECK-NEXT:    graph.reshape
// CHECK-NEXT:    graph.matmul %{{.*}} {graph.range = array<f32: -2.000000e-01, 2.000000e+00>, activation = #graph.function<swish>}
// CHECK-NEXT:    graph.binary add %{{.*}} {activation = #graph.function<clip, 0.0, 6.0>}
// CHECK-NEXT:    func.return
func.func @fuse(%x: tensor<1x2x2x1xf32>, %w: tensor<1x1x1x1xf32>, %v: tensor<4x4xf32>) -> tensor<1x4xf32> {
  %a = graph.conv2d %x, %w : (tensor<1x2x2x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x2x2x1xf32> loc("conv")
  %b = graph.unary <relu> %a : tensor<1x2x2x1xf32> loc("relu")
  %c = graph.reshape %b : (tensor<1x2x2x1xf32>) -> tensor<1x4xf32>
  %d = graph.matmul %c, %v : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %e = graph.unary <swish> %d {graph.range = array<f32: -0.2, 2.0>} : tensor<1x4xf32>
  %f = graph.binary add %e, %c : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %g = graph.unary <clip, 0.0, 6.0> %f : tensor<1x4xf32>
  func.return %g : tensor<1x4xf32>
}

// Two readers: one of them needs the value before the function.
// CHECK-LABEL: func.func @two_readers(
// CHECK-NEXT:    graph.binary add
// CHECK-NEXT:    graph.unary <relu>
func.func @two_readers(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = graph.binary add %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = graph.unary <relu> %a : tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// An epilogue applies one function only.
// CHECK-LABEL: func.func @two_functions(
// CHECK-NEXT:    graph.binary add %{{.*}} {activation = #graph.function<relu>}
// CHECK-NEXT:    graph.unary <tanh>
func.func @two_functions(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.binary add %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = graph.unary <relu> %a : tensor<4xf32>
  %c = graph.unary <tanh> %b : tensor<4xf32>
  func.return %c : tensor<4xf32>
}

// Pooling has no epilogue, an argument no operation.
// CHECK-LABEL: func.func @no_epilogue(
// CHECK-NEXT:    graph.unary <relu>
// CHECK-NEXT:    graph.pool2d
// CHECK-NEXT:    graph.unary <tanh>
func.func @no_epilogue(%x: tensor<1x2x2x1xf32>) -> tensor<1x1x1x1xf32> {
  %a = graph.unary <relu> %x : tensor<1x2x2x1xf32>
  %b = graph.pool2d max %a {kernel = array<i64: 2, 2>} : (tensor<1x2x2x1xf32>) -> tensor<1x1x1x1xf32>
  %c = graph.unary <tanh> %b : tensor<1x1x1x1xf32>
  func.return %c : tensor<1x1x1x1xf32>
}

// What calibration saw before a function indexes its table; a clip needs no table.
// CHECK-LABEL: func.func @calibrated(
// CHECK:         graph.binary add {{.*}}graph.range = array<f32: -2.000000e+00, 2.000000e+00>
// CHECK-NEXT:    graph.unary <tanh>
// CHECK-NEXT:    graph.binary add %{{.*}} {graph.range = array<f32: 0.000000e+00, 2.000000e+00>, activation = #graph.function<relu>}
func.func @calibrated(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.binary add %x, %x {graph.range = array<f32: -2.0, 2.0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = graph.unary <tanh> %a {graph.range = array<f32: -1.0, 1.0>} : tensor<4xf32>
  %c = graph.binary add %b, %b {graph.range = array<f32: -2.0, 2.0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = graph.unary <relu> %c {graph.range = array<f32: 0.0, 2.0>} : tensor<4xf32>
  func.return %d : tensor<4xf32>
}

// The epilogue of integers is a table, and what makes floats of them is one.
// CHECK-LABEL: func.func @table(
// CHECK:         graph.matmul %{{.*}} table = dense<2.000000e+00>
// CHECK-NEXT:    graph.unary <sigmoid>
func.func @table(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2xf32> {
  %a = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, table = dense<2.0> : tensor<256xf32>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2xf32>
  %b = graph.unary <sigmoid> %a : tensor<3x2xf32>
  func.return %b : tensor<3x2xf32>
}
