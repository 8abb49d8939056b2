// RUN: ceras-opt %s --split-input-file --choose-zero-points | filecheck %s
// RUN: ceras-opt %s --split-input-file --choose-zero-points --choose-zero-points | filecheck %s
// RUN: ceras-opt %s --split-input-file --choose-zero-points="half-up=true" | filecheck %s --check-prefix HALF-UP
// RUN: ceras-opt %s --split-input-file --choose-zero-points="symmetric-factors=true" | filecheck %s --check-prefix FACTORS

// The image is never negative: steps half as long, and zero is the least number.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: graph.exponent = -8 : i64, graph.zero_point = -128 : i64
func.func @main(%x: tensor<1x12x12x1xf32> {graph.range = array<f32: 0.0, 0.99>, graph.exponent = -7 : i64}) {
  // As far below zero as above: nothing to gain.
  %w = graph.constant dense<1.0> : tensor<1x1x1x1xf32> : tensor<1x1x1x1xf32>
  // CHECK: %0 = {{.*}}graph.exponent = -5 : i64}
  %0 = graph.conv2d %x, %w {graph.range = array<f32: -3.5, 3.5>, graph.exponent = -5 : i64} : (tensor<1x12x12x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x12x12x1xf32>
  // SiLU leaves little: 18 steps of 2^-6 hold it.
  // CHECK: %1 = {{.*}}graph.exponent = -6 : i64, graph.zero_point = -110 : i64}
  %1 = graph.unary <swish> %0 {graph.range = array<f32: -0.278, 3.5>, graph.exponent = -5 : i64} : tensor<1x12x12x1xf32>
  // What was to be clipped stays clipped, at [0, 4).
  // CHECK: %2 = {{.*}}graph.exponent = -6 : i64, graph.zero_point = -128 : i64,
  %2 = graph.conv2d %1, %w {activation = #graph.function<relu>, graph.range = array<f32: 0.0, 9.0>, graph.exponent = -5 : i64} : (tensor<1x12x12x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x12x12x1xf32>
  // 16 bits have no need of one.
  // CHECK: %3 = {{.*}}graph.exponent = -12 : i64, graph.precision = "i16"}
  %3 = graph.unary <relu> %2 {graph.range = array<f32: 0.0, 3.5>, graph.exponent = -12 : i64, graph.precision = "i16"} : tensor<1x12x12x1xf32>
  // Two thirds below zero would take too much from above, where something is; not here.
  // CHECK: %4 = {{.*}}graph.exponent = -5 : i64}
  %4 = graph.unary <relu> %0 {graph.range = array<f32: -2.0, 3.5>, graph.exponent = -5 : i64} : tensor<1x12x12x1xf32>
  // CHECK: %5 = {{.*}}graph.exponent = -6 : i64}
  %5 = graph.unary <relu> %0 {graph.range = array<f32: -2.0, 1.9>, graph.exponent = -5 : i64} : tensor<1x12x12x1xf32>
  // CHECK: %6 = {{.*}}graph.exponent = -6 : i64, graph.zero_point = -64 : i64}
  %6 = graph.unary <relu> %0 {graph.range = array<f32: -1.0, 2.4>, graph.exponent = -5 : i64} : tensor<1x12x12x1xf32>
  // A mean of 36 would lose its ties: neither it nor what it reads.
  // CHECK: %7 = {{.*}}graph.exponent = -5 : i64}
  %7 = graph.unary <relu> %0 {graph.range = array<f32: 0.0, 3.5>, graph.exponent = -5 : i64} : tensor<1x12x12x1xf32>
  // CHECK: %8 = {{.*}}graph.exponent = -5 : i64, kernel
  %8 = graph.pool2d average %7 {kernel = array<i64: 6, 6>, strides = array<i64: 6, 6>, graph.range = array<f32: 0.0, 3.5>, graph.exponent = -5 : i64} : (tensor<1x12x12x1xf32>) -> tensor<1x2x2x1xf32>
  func.return
}

// -----

// Accelerators round half up: sums of few stay symmetric, with what they read.
// CHECK-LABEL: func.func @main(%{{.*}}tensor<1x4x4x1xf32>
// CHECK-SAME: graph.zero_point = -128 : i64
// HALF-UP-LABEL: func.func @main(%{{.*}}tensor<1x4x4x1xf32>
// HALF-UP-SAME: graph.zero_point = -128 : i64
func.func @main(%x: tensor<1x4x4x1xf32> {graph.range = array<f32: 0.0, 0.99>, graph.exponent = -7 : i64}) {
  %w = graph.constant dense<1.0> : tensor<1x3x3x1xf32> : tensor<1x3x3x1xf32>
  %v = graph.constant dense<1.0> : tensor<1x1x1x1xf32> : tensor<1x1x1x1xf32>
  // CHECK: %0 = {{.*}}graph.zero_point = -128 : i64
  // HALF-UP: %0 = {{.*}}graph.zero_point = -128 : i64
  %0 = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>, activation = #graph.function<relu>, graph.range = array<f32: 0.0, 3.5>, graph.exponent = -5 : i64} : (tensor<1x4x4x1xf32>, tensor<1x3x3x1xf32>) -> tensor<1x4x4x1xf32>
  // CHECK: %1 = {{.*}}graph.zero_point = -128 : i64
  // HALF-UP: %1 = {{.*}}graph.zero_point = -128 : i64
  %1 = graph.conv2d %0, %w {padding = array<i64: 1, 1, 1, 1>, activation = #graph.function<relu>, graph.range = array<f32: 0.0, 3.5>, graph.exponent = -5 : i64} : (tensor<1x4x4x1xf32>, tensor<1x3x3x1xf32>) -> tensor<1x4x4x1xf32>
  // CHECK: %2 = {{.*}}graph.zero_point = -128 : i64
  // HALF-UP: %2 = {{.*}}graph.exponent = -5 : i64,
  %2 = graph.conv2d %1, %v {activation = #graph.function<relu>, graph.range = array<f32: 0.0, 3.5>, graph.exponent = -5 : i64} : (tensor<1x4x4x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x4x4x1xf32>
  // CHECK: %3 = {{.*}}graph.zero_point = -128 : i64
  // HALF-UP: %3 = {{.*}}graph.exponent = -5 : i64}
  %3 = graph.binary add %2, %2 {graph.range = array<f32: 0.0, 3.5>, graph.exponent = -5 : i64} : (tensor<1x4x4x1xf32>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x1xf32>
  // The host adds unequal shapes.
  // CHECK: %4 = {{.*}}graph.zero_point = -128 : i64
  // HALF-UP: %4 = {{.*}}graph.zero_point = -128 : i64
  %4 = graph.pool2d max %0 {kernel = array<i64: 4, 1>, strides = array<i64: 4, 1>, graph.range = array<f32: 0.0, 3.5>, graph.exponent = -5 : i64} : (tensor<1x4x4x1xf32>) -> tensor<1x1x4x1xf32>
  // CHECK: %5 = {{.*}}graph.zero_point = -128 : i64
  // HALF-UP: %5 = {{.*}}graph.zero_point = -128 : i64
  %5 = graph.binary add %1, %4 {graph.range = array<f32: 0.0, 3.5>, graph.exponent = -5 : i64} : (tensor<1x4x4x1xf32>, tensor<1x1x4x1xf32>) -> tensor<1x4x4x1xf32>
  func.return
}

// -----

// What is clipped on one side gets what is free on the other, up to all of it.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: graph.exponent = -5 : i64, graph.zero_point = -16 : i64
func.func @main(%x: tensor<4xf32> {graph.range = array<f32: -2.0, 4.46875>, graph.exponent = -5 : i64}) {
  // CHECK: %0 = {{.*}}graph.exponent = -5 : i64, graph.zero_point = 64 : i64
  %0 = graph.unary <tanh> %x {graph.range = array<f32: -9.0, 1.96875>, graph.exponent = -5 : i64} : tensor<4xf32>
  // CHECK: %1 = {{.*}}graph.exponent = -5 : i64}
  %1 = graph.unary <tanh> %x {graph.range = array<f32: -9.0, 9.0>, graph.exponent = -5 : i64} : tensor<4xf32>
  func.return
}

// -----

// The second factor of a product of activations, as it is or transposed; the first may have one.
// CHECK-LABEL: func.func @main(%{{.*}}tensor<4x8xf32>
// CHECK-SAME: graph.zero_point = -128 : i64{{.*}}graph.zero_point = -128 : i64{{.*}}graph.exponent = -7 : i64}
// FACTORS-LABEL: func.func @main(%{{.*}}tensor<4x8xf32>
// FACTORS-SAME: graph.exponent = -8 : i64, graph.zero_point = -128 : i64{{.*}}graph.exponent = -7 : i64}{{.*}}graph.exponent = -7 : i64}
func.func @main(%x: tensor<4x8xf32> {graph.range = array<f32: 0.0, 0.99>, graph.exponent = -7 : i64}, %k: tensor<8x5xf32> {graph.range = array<f32: 0.0, 0.99>, graph.exponent = -7 : i64}, %m: tensor<5x8xf32> {graph.range = array<f32: 0.0, 0.99>, graph.exponent = -7 : i64}) {
  %t = graph.transpose %k {permutation = array<i64: 1, 0>} : (tensor<8x5xf32>) -> tensor<5x8xf32>
  %0 = graph.matmul %x, %t {graph.range = array<f32: -3.5, 3.5>, graph.exponent = -5 : i64} : (tensor<4x8xf32>, tensor<5x8xf32>) -> tensor<4x5xf32>
  %1 = graph.matmul %x, %m {graph.range = array<f32: -3.5, 3.5>, graph.exponent = -5 : i64} : (tensor<4x8xf32>, tensor<5x8xf32>) -> tensor<4x5xf32>
  func.return
}

// -----

// What calibration found best goes before what ranges say, where a zero point may be.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: graph.affine = array<i64: -4, -100>, graph.exponent = -4 : i64, graph.zero_point = -100 : i64
func.func @main(%x: tensor<1x4x4x1xf32> {graph.range = array<f32: -0.3, 13.0>, graph.exponent = -4 : i64, graph.affine = array<i64: -4, -100>}) {
  // CHECK: %0 = {{.*}}graph.exponent = -5 : i64, graph.affine = array<i64: -6, -64>, graph.precision = "i16"}
  %0 = graph.unary <swish> %x {graph.range = array<f32: -0.278, 3.5>, graph.exponent = -5 : i64, graph.affine = array<i64: -6, -64>, graph.precision = "i16"} : tensor<1x4x4x1xf32>
  // HALF-UP: %1 = {{.*}}graph.exponent = -4 : i64, graph.affine = array<i64: -4, -118>}
  %1 = graph.binary add %x, %x {graph.range = array<f32: -0.6, 26.0>, graph.exponent = -4 : i64, graph.affine = array<i64: -4, -118>} : (tensor<1x4x4x1xf32>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x1xf32>
  func.return
}

// -----

// What shifts alone make has no zero point, and what only moves it none either, beside others too.
// CHECK-LABEL: func.func @main(%{{.*}}tensor<1x4x4x2xf32>
func.func @main(%x: tensor<1x4x4x2xf32> {graph.range = array<f32: 0.0, 0.99>, graph.exponent = -7 : i64}) {
  %w = graph.constant dense<1.0> : tensor<2x1x1x2xf32> : tensor<2x1x1x2xf32>
  %0 = graph.conv2d %x, %w {graph.range = array<f32: -3.5, 3.5>, graph.exponent = -13 : i64, graph.precision = "i16"} : (tensor<1x4x4x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x4x4x2xf32>
  // CHECK: %1 = {{.*}}graph.form = "shifts"{{.*}}graph.exponent = -5 : i64}
  %1 = graph.unary <swish> %0 {graph.form = "shifts", graph.range = array<f32: -0.278, 3.5>, graph.exponent = -5 : i64} : tensor<1x4x4x2xf32>
  // CHECK: %2 = {{.*}}graph.exponent = -5 : i64, kernel
  %2 = graph.pool2d max %1 {graph.range = array<f32: -0.278, 3.5>, graph.exponent = -5 : i64, kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  // CHECK: %3 = {{.*}}graph.zero_point = -128 : i64
  %3 = graph.pool2d max %x {graph.range = array<f32: 0.0, 0.99>, graph.exponent = -7 : i64, kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  // CHECK: %4 = {{.*}}graph.exponent = -5 : i64, axis
  %4 = graph.concat %2, %3 {axis = 3 : i64, graph.range = array<f32: -0.278, 3.5>, graph.exponent = -5 : i64} : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x4xf32>
  %v = graph.constant dense<1.0> : tensor<2x1x1x4xf32> : tensor<2x1x1x4xf32>
  %5 = graph.conv2d %4, %v {graph.range = array<f32: -3.5, 3.5>, graph.exponent = -5 : i64} : (tensor<1x2x2x4xf32>, tensor<2x1x1x4xf32>) -> tensor<1x2x2x2xf32>
  func.return
}
