// RUN: ceras-opt %s --keep-in-float="rules=tail" --split-input-file | filecheck %s
// RUN: ceras-opt %s --quantize=recipe=none --split-input-file | filecheck %s --check-prefix=FLOAT
// RUN: ceras-opt %s --quantize="recipe=none tail=int8" --split-input-file | filecheck %s --check-prefix=INT8
// RUN: not ceras-opt %s --quantize=tail=none --split-input-file 2>&1 | filecheck %s --check-prefix=BAD

// BAD: option 'tail' of pass 'quantize' must be float|int8, got 'none'

!m = tensor<1x2xf32>

// Boxes up to 400 and scores up to 1: at one scale all scores would be 0.
// CHECK-LABEL: func.func @main(
// FLOAT-LABEL: func.func @main(
// INT8-LABEL: func.func @main(
func.func @main(%x: !m {graph.exponent = -7 : i64}) -> (tensor<4x1xf32>, !m) {
  %w = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  // FLOAT: graph.matmul {{.*}} -> tensor<1x2x!quant.uniform<i8:f32, 4.0>>
  %0 = graph.matmul %x, %w {graph.exponent = 2 : i64} : (!m, tensor<2x2xf32>) -> !m
  // FLOAT: graph.matmul {{.*}} -> tensor<1x2x!quant.uniform<i8:f32, 0.0078125>>
  %1 = graph.matmul %x, %w {graph.exponent = -7 : i64} : (!m, tensor<2x2xf32>) -> !m
  // What only moves elements follows its surroundings.
  // CHECK: graph.concat {{.*}}graph.precision = "f32"
  // CHECK-NEXT: graph.reshape %{{[0-9]*}} : (tensor<1x4xf32>) -> tensor<4x1xf32>
  // FLOAT: graph.concat {{.*}} -> tensor<1x4xf32>
  // INT8: graph.concat {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 4.0>>
  %2 = graph.concat %0, %1 {axis = 1 : i64, graph.exponent = 2 : i64} : (!m, !m) -> tensor<1x4xf32>
  %3 = graph.reshape %2 : (tensor<1x4xf32>) -> tensor<4x1xf32>
  // Where a product follows, one scale it is.
  // CHECK: graph.concat
  // CHECK-NOT: graph.precision
  // CHECK: func.return
  %4 = graph.concat %0, %1 {axis = 0 : i64, graph.exponent = 2 : i64} : (!m, !m) -> tensor<2x2xf32>
  %5 = graph.matmul %x, %4 {graph.exponent = 2 : i64} : (!m, tensor<2x2xf32>) -> !m
  func.return %3, %5 : tensor<4x1xf32>, !m
}

// -----

// Boxes are decoded in float; the sigmoid is of an inner layer too, so it stays where that is. A
// pooling is no tail; neither is what stands before any product.
!m = tensor<1x4x4x2xf32>
!w = tensor<2x1x1x2xf32>
!p = tensor<1x2x2x2xf32>
// CHECK-LABEL: func.func @main(
// FLOAT-LABEL: func.func @main(
// INT8-LABEL: func.func @main(
// INT8-NOT: -> tensor<{{[0-9x]*}}f32>
// INT8: graph.dequantize
func.func @main(%x: !m {graph.exponent = -7 : i64}) -> (!m, !p) {
  %w = graph.constant dense<0.5> : !w : !w
  %g = graph.constant dense<3.0> : tensor<2xf32> : tensor<2xf32>
  // CHECK: graph.unary <tanh> %{{.*}} {graph.exponent = -7 : i64} :
  %t = graph.unary <tanh> %x {graph.exponent = -7 : i64} : !m
  // CHECK-NEXT: graph.conv2d %{{.*}} {graph.exponent = -5 : i64} :
  // FLOAT: graph.conv2d {{.*}} -> tensor<1x4x4x2x!quant.uniform<i8:f32, 0.03125>>
  %a = graph.conv2d %t, %w {graph.exponent = -5 : i64} : (!m, !w) -> !m
  // CHECK-NEXT: graph.unary <sigmoid> %{{.*}} {graph.exponent = -7 : i64} :
  // FLOAT: graph.lookup
  %s = graph.unary <sigmoid> %a {graph.exponent = -7 : i64} : !m
  // CHECK-NEXT: graph.binary mul %{{.*}} {graph.exponent = 1 : i64, graph.precision = "f32", graph.float_reason = "after the last layer that sums, float costs little; --io int8 computes it in int8"}
  // FLOAT: graph.binary mul {{.*}} -> tensor<1x4x4x2xf32>
  %b = graph.binary mul %s, %g {graph.exponent = 1 : i64} : (!m, tensor<2xf32>) -> !m
  // CHECK-NEXT: graph.unary <tanh> %{{.*}} {graph.exponent = -7 : i64, graph.precision = "f32"
  // FLOAT: graph.unary <tanh>
  %e = graph.unary <tanh> %b {graph.exponent = -7 : i64} : !m
  // CHECK-NEXT: graph.pool2d max %{{.*}} {graph.exponent = -7 : i64, kernel
  // FLOAT: graph.pool2d max {{.*}}!quant.uniform
  %p = graph.pool2d max %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, graph.exponent = -7 : i64} : (!m) -> !p
  func.return %e, %p : !m, !p
}

// -----

// Without any sum of products there is no tail.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: graph.precision
func.func @main(%x: tensor<4xf32> {graph.exponent = -7 : i64}) -> tensor<4xf32> {
  %0 = graph.unary <sigmoid> %x {graph.exponent = -7 : i64} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// Phases of one transposed convolution: joining and interleaving them moves bytes. Their like from
// several layers is joined in float.
// CHECK-LABEL: func.func @main(
// CHECK: graph.concat %1, %2 {graph.exponent = -5 : i64, axis = 0 : i64}
// CHECK: graph.concat %1, %3 {{.*}}graph.precision = "f32"
!i = tensor<1x4x4x1xf32>
func.func @main(%x: !i {graph.exponent = -7 : i64}) -> (tensor<2x4x4x1xf32>, tensor<2x4x4x1xf32>) {
  %0 = graph.constant dense<1.0> : tensor<1x1x1x1xf32> : tensor<1x1x1x1xf32>
  %1 = graph.conv2d %x, %0 {graph.exponent = -5 : i64} : (!i, tensor<1x1x1x1xf32>) -> !i loc("up")
  %2 = graph.conv2d %x, %0 {graph.exponent = -5 : i64} : (!i, tensor<1x1x1x1xf32>) -> !i loc("up")
  %3 = graph.conv2d %x, %0 {graph.exponent = -5 : i64} : (!i, tensor<1x1x1x1xf32>) -> !i loc("other")
  %4 = graph.concat %1, %2 {axis = 0 : i64, graph.exponent = -5 : i64} : (!i, !i) -> tensor<2x4x4x1xf32> loc("up")
  %5 = graph.concat %1, %3 {axis = 0 : i64, graph.exponent = -5 : i64} : (!i, !i) -> tensor<2x4x4x1xf32> loc("up")
  func.return %4, %5 : tensor<2x4x4x1xf32>, tensor<2x4x4x1xf32>
}
