// RUN: ceras-opt %s --keep-in-float="rules=cell-states" | filecheck %s
// RUN: ceras-opt %s --keep-in-float="rules=cell-states" --keep-in-float="rules=cell-states" | filecheck %s
// RUN: ceras-opt %s --keep-in-float="rules=cell-states" --observe-ranges 2>/dev/null | filecheck %s --check-prefix=RANGES

// What takes the states and what takes the cell state have ranges apart; other slices follow.
// CHECK-LABEL: func.func @main
// CHECK: graph.slice {{.*}}graph.precision = "f32"{{.*}} -> tensor<3x1x2xf32>
// CHECK: graph.slice {{.*}}graph.precision = "f32"{{.*}} -> tensor<1x1x2xf32>
// CHECK: graph.slice %{{[0-9a-z]+}} {starts = array<i64: 2, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<3x1x2xf32>)
// CHECK: graph.slice %{{[0-9a-z]+}} {starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<3x1x8xf32>)

// The cell state begins as 12 and halves at most in a step; states are within 1.
// RANGES: graph.slice {{.*}}graph.exponent = -{{[6-9]}} : i64{{.*}} -> tensor<3x1x2xf32>
// RANGES: graph.slice {{.*}}graph.exponent = -{{[2-5]}} : i64{{.*}} -> tensor<1x1x2xf32>
func.func @main(%x: tensor<3x1x8xf32>, %h: tensor<1x2xf32>) -> (tensor<3x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x8xf32>) {
  %c = graph.constant dense<12.0> : tensor<1x2xf32> : tensor<1x2xf32>
  %w = graph.constant dense<0.5> : tensor<8x2xf32> : tensor<8x2xf32>
  %y = graph.recurrence lstm %x, %w, %h cell %c : tensor<1x2xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>]} : (tensor<3x1x8xf32>, tensor<8x2xf32>, tensor<1x2xf32>) -> tensor<4x1x2xf32>
  %s = graph.slice %y {starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<4x1x2xf32>) -> tensor<3x1x2xf32>
  %e = graph.slice %y {starts = array<i64: 3, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<4x1x2xf32>) -> tensor<1x1x2xf32>
  %l = graph.slice %s {starts = array<i64: 2, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<3x1x2xf32>) -> tensor<1x1x2xf32>
  %f = graph.slice %x {starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<3x1x8xf32>) -> tensor<1x1x8xf32>
  func.return %s, %e, %l, %f : tensor<3x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x8xf32>
}
