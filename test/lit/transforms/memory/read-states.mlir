// RUN: ceras-opt %s --read-states | filecheck %s

// Both products of attention read the cache where it is stored: rows, and columns of it. Every second
// element is not adjacent to the next, and nine rows are worth a packed copy of a state. Products of
// nine rows pack heads of other values from where they are stored.
// CHECK-LABEL: func.func @main(
// CHECK:         %y = graph.update %r into %x
// CHECK:         graph.strided_matmul %q, %y {offset = 16 : i64, strides = array<i64: 4, 1>}
// CHECK:         graph.strided_matmul %q, %y bias %b : tensor<4xf32> {offset = 0 : i64, strides = array<i64: 1, 4>}
// CHECK:         graph.matmul
// CHECK:         graph.matmul
// CHECK:         graph.strided_matmul %m, %z {offset = 4 : i64, strides = array<i64: 8, 1>}
func.func @main(%x: tensor<2x4x4xf32>, %r: tensor<2x1x4xf32>, %q: tensor<1x4xf32>, %b: tensor<4xf32>,
    %h: tensor<1x2xf32>, %m: tensor<9x4xf32>,
    %k: tensor<3x8xf32>)
    -> (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<9x4xf32>, tensor<9x3xf32>) {
  %y = graph.update %r into %x {axis = 1 : i64} : (tensor<2x4x4xf32>, tensor<2x1x4xf32>) -> tensor<2x4x4xf32>
  %s = graph.slice %y {starts = array<i64: 1, 0, 0>, strides = array<i64: 1, 1, 1>}
      : (tensor<2x4x4xf32>) -> tensor<1x4x4xf32>
  %w = graph.reshape %s : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
  %a = graph.matmul %q, %w : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %t = graph.slice %y {starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>}
      : (tensor<2x4x4xf32>) -> tensor<1x4x4xf32>
  %u = graph.reshape %t : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
  %v = graph.transpose %u {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = graph.matmul %q, %v bias %b : tensor<4xf32> : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %e = graph.slice %u {starts = array<i64: 0, 0>, strides = array<i64: 1, 2>} : (tensor<4x4xf32>) -> tensor<4x2xf32>
  %d = graph.matmul %h, %e : (tensor<1x2xf32>, tensor<4x2xf32>) -> tensor<1x4xf32>
  %n = graph.matmul %m, %w : (tensor<9x4xf32>, tensor<4x4xf32>) -> tensor<9x4xf32>
  %z = graph.unary <relu> %k : tensor<3x8xf32>
  %f = graph.slice %z {starts = array<i64: 0, 4>, strides = array<i64: 1, 1>} : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %g = graph.matmul %m, %f : (tensor<9x4xf32>, tensor<3x4xf32>) -> tensor<9x3xf32>
  func.return %a, %c, %d, %n, %g : tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<9x4xf32>, tensor<9x3xf32>
}
