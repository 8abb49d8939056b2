// RUN: ceras-opt %s --keep-in-float="rules=forks" --split-input-file | filecheck %s
// RUN: ceras-opt %s --quantize=recipe=none --split-input-file 2>/dev/null | filecheck %s --check-prefix=STORED

// A transposition of the input that a layer reads in integers, and the residual behind all layers
// in floats: those get a copy, and read the input as it came.
!x = tensor<1x2xf32>
!t = tensor<2x1xf32>
// CHECK-LABEL: func.func @main(
// STORED-LABEL: func.func @main(
func.func @main(%x: !x) -> !t {
  %w = graph.constant dense<[[0.5], [1.5]]> : tensor<2x1xf32> : tensor<2x1xf32>
  // CHECK: [[T:%.+]] = graph.transpose %x {permutation = array<i64: 1, 0>} :
  // STORED: graph.quantize %x
  %t = graph.transpose %x {permutation = array<i64: 1, 0>} : (!x) -> !t
  // CHECK: [[M:%.+]] = graph.matmul [[T]],
  %m = graph.matmul %t, %w : (!t, tensor<2x1xf32>) -> tensor<2x2xf32>
  %s = graph.slice %m {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<2x2xf32>) -> !t
  // CHECK: [[COPY:%.+]] = graph.transpose %x {{.*}}graph.precision = "f32", graph.float_reason = "moves a float input
  // CHECK-NEXT: graph.binary sub [[COPY]],
  // STORED: [[COPY:%.+]] = graph.transpose %x {{.*}} -> tensor<2x1xf32>
  // STORED: graph.binary sub [[COPY]],
  %r = graph.binary sub %t, %s {graph.precision = "f32"} : (!t, !t) -> !t
  func.return %r : !t
}

// -----

// Two floats share a copy, of both moves. What integers made is not copied.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>, tensor<2x1xf32>) {
  %w = graph.constant dense<[[0.5, 1.0], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %t = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<1x2xf32>) -> tensor<2x1xf32>
  %r = graph.reshape %t : (tensor<2x1xf32>) -> tensor<1x2xf32>
  %m = graph.matmul %r, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %u = graph.reshape %m : (tensor<1x2xf32>) -> tensor<2x1xf32>
  // CHECK: graph.transpose %x {{.*}}graph.precision = "f32"
  // CHECK-NEXT: [[COPY:%.+]] = graph.reshape {{.*}}graph.precision = "f32"
  // CHECK-NEXT: graph.unary <tanh> [[COPY]]
  // CHECK-NEXT: graph.unary <exp> [[COPY]]
  %a = graph.unary <tanh> %r {graph.precision = "f32"} : tensor<1x2xf32>
  %b = graph.unary <exp> %r {graph.precision = "f32"} : tensor<1x2xf32>
  // CHECK-NEXT: graph.unary <exp> %u
  %c = graph.unary <exp> %u {graph.precision = "f32"} : tensor<2x1xf32>
  func.return %a, %b, %c : tensor<1x2xf32>, tensor<1x2xf32>, tensor<2x1xf32>
}

// -----

// A state is integers between calls, and floats read those.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: graph.float_reason
func.func @main(%h: tensor<1x2xf32> {graph.name = "h", graph.state = "n"}) -> (tensor<2x1xf32>, tensor<1x2xf32> {graph.name = "n"}) {
  %w = graph.constant dense<[[0.5], [1.5]]> : tensor<2x1xf32> : tensor<2x1xf32>
  %t = graph.transpose %h {permutation = array<i64: 1, 0>} : (tensor<1x2xf32>) -> tensor<2x1xf32>
  %m = graph.matmul %t, %w : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %n = graph.slice %m {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<2x2xf32>) -> tensor<1x2xf32>
  %a = graph.unary <tanh> %t {graph.precision = "f32"} : tensor<2x1xf32>
  func.return %a, %n : tensor<2x1xf32>, tensor<1x2xf32>
}
