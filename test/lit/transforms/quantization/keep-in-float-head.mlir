// RUN: ceras-opt %s --keep-in-float="rules=head" --split-input-file | filecheck %s
// RUN: ceras-opt %s --quantize=recipe=none --split-input-file | filecheck %s --check-prefix=FLOAT
// RUN: ceras-opt %s --quantize="recipe=none tail=int8" --split-input-file | filecheck %s --check-prefix=INT8

// Features of 1000 and of 0.01, which the network brings to one scale itself. In int8 the second
// one would be zero.
!m = tensor<1x2xf32>
// CHECK-LABEL: func.func @main(
// FLOAT-LABEL: func.func @main(
// INT8-LABEL: func.func @main(
func.func @main(%x: !m {graph.exponent = 3 : i64}) -> !m {
  %mean = graph.constant dense<[500.0, 0.005]> : tensor<2xf32> : tensor<2xf32>
  // CHECK: graph.binary sub {{.*}}graph.precision = "f32", graph.float_reason = "prepares inputs for the first sum of products"
  // FLOAT: graph.binary sub {{.*}} -> tensor<1x2xf32>
  // INT8: graph.binary sub {{.*}} -> tensor<1x2x!quant.uniform<i8:f32, 8.0>>
  %0 = graph.binary sub %x, %mean {graph.exponent = 3 : i64} : (!m, tensor<2xf32>) -> !m
  %scale = graph.constant dense<[0.002, 200.0]> : tensor<2xf32> : tensor<2xf32>
  // CHECK: graph.binary mul {{.*}}graph.precision = "f32"
  // FLOAT: graph.binary mul {{.*}} -> tensor<1x2xf32>
  %1 = graph.binary mul %0, %scale {graph.exponent = -7 : i64} : (!m, tensor<2xf32>) -> !m
  %w = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  // FLOAT: graph.matmul {{.*}} -> tensor<1x2x!quant.uniform<i8:f32, 0.0625>>
  %2 = graph.matmul %1, %w {graph.exponent = -4 : i64} : (!m, tensor<2x2xf32>) -> !m
  func.return %2 : !m
}

// -----

// Rows of a table are no head, and neither is what reads the results of a sum, or what no sum
// reads. Integers that become floats are.
!m = tensor<1x2xf32>
// CHECK-LABEL: func.func @main(
// FLOAT-LABEL: func.func @main(
// INT8-LABEL: func.func @main(
func.func @main(%x: !m {graph.exponent = -7 : i64}, %i: tensor<1xi64>) -> (!m, !m) {
  %w = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  // CHECK: graph.take
  // CHECK-NOT: graph.precision
  // CHECK: graph.binary mul
  // CHECK-NOT: graph.precision
  // CHECK: graph.matmul
  %0 = graph.take %w[%i] {graph.exponent = -4 : i64} : (tensor<2x2xf32>, tensor<1xi64>) -> !m
  %1 = graph.binary mul %0, %x {graph.exponent = -4 : i64} : (!m, !m) -> !m
  %2 = graph.matmul %1, %w {graph.exponent = -4 : i64} : (!m, tensor<2x2xf32>) -> !m
  // CHECK: graph.cast {{.*}}graph.precision = "f32"
  %3 = graph.cast %i {graph.exponent = 0 : i64} : (tensor<1xi64>) -> tensor<1xf32>
  // CHECK: graph.binary mul {{.*}}graph.precision = "f32"
  %4 = graph.binary mul %x, %3 {graph.exponent = -7 : i64} : (!m, tensor<1xf32>) -> !m
  // CHECK: graph.binary add
  // CHECK-NOT: graph.precision
  // CHECK: graph.unary
  // CHECK-NOT: graph.precision
  // CHECK: func.return
  %5 = graph.binary add %2, %4 {graph.exponent = -4 : i64} : (!m, !m) -> !m
  %6 = graph.matmul %5, %w {graph.exponent = -4 : i64} : (!m, tensor<2x2xf32>) -> !m
  %7 = graph.unary <tanh> %x {graph.exponent = -7 : i64} : !m
  func.return %6, %7 : !m, !m
}

// -----

// Parts of one image are joined in integers, features of two inputs in float.
!m = tensor<1x2xf32>
!h = tensor<1x1xf32>
!p = tensor<1x4xf32>
!w = tensor<2x4xf32>
// CHECK-LABEL: func.func @main(
// FLOAT-LABEL: func.func @main(
// INT8-LABEL: func.func @main(
func.func @main(%x: !m {graph.exponent = -7 : i64}, %y: !m {graph.exponent = 3 : i64}) -> (!m, !m) {
  %w = graph.constant dense<0.5> : !w : !w
  %v = graph.constant dense<0.5> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.slice %x {starts = array<i64: 0, 0>, strides = array<i64: 1, 2>} : (!m) -> !h
  %1 = graph.slice %x {starts = array<i64: 0, 1>, strides = array<i64: 1, 2>} : (!m) -> !h
  // CHECK: graph.concat
  // CHECK-NOT: graph.precision
  // CHECK: graph.matmul
  // FLOAT: graph.concat {{.*}} -> tensor<1x2x!quant
  %2 = graph.concat %1, %0 {axis = 1 : i64} : (!h, !h) -> !m
  %3 = graph.matmul %2, %v {graph.exponent = -4 : i64} : (!m, tensor<2x2xf32>) -> !m
  // CHECK: graph.concat {{.*}}graph.precision = "f32"
  // FLOAT: graph.concat {{.*}} -> tensor<1x4xf32>
  %4 = graph.concat %x, %y {axis = 1 : i64, graph.exponent = 3 : i64} : (!m, !m) -> !p
  %5 = graph.matmul %4, %w {graph.exponent = 4 : i64} : (!p, !w) -> !m
  func.return %3, %5 : !m, !m
}
