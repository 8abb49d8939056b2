// RUN: ceras-opt %s --distribute-concat --split-input-file | filecheck %s

// Two heads of attention: scores are scaled, moved by an input of every head and normalized on
// their own. Constants are cut, other operands sliced.
// CHECK-LABEL: func.func @main
// CHECK-NOT:   graph.concat
// CHECK:       [[A:%.+]] = graph.binary mul %x
// CHECK-NEXT:  [[B:%.+]] = graph.slice %b {starts = array<i64: 0, 0, 0>
// CHECK-NEXT:  [[C:%.+]] = graph.binary add [[A]], [[B]] : (tensor<1x5x4xf32>, tensor<1x1x4xf32>)
// CHECK-NEXT:  graph.constant dense<2.0{{.*}}> : tensor<1x1x1xf32>
// CHECK-NEXT:  [[D:%.+]] = graph.binary sub [[C]]
// CHECK-NEXT:  [[E:%.+]] = graph.reshape [[D]] {{.*}} -> tensor<1x1x5x4xf32>
// CHECK-NEXT:  [[F:%.+]] = graph.softmax [[E]] {axis = 3 : i64} : tensor<1x1x5x4xf32>
// CHECK-NEXT:  [[G:%.+]] = graph.reshape [[F]] {{.*}} -> tensor<1x5x4xf32>
// CHECK-NEXT:  graph.binary mul %y
// CHECK-NEXT:  graph.slice %b {starts = array<i64: 1, 0, 0>
// CHECK:       graph.constant dense<3.0
// CHECK-NOT:   graph.slice
// CHECK:       graph.reshape [[G]] {{.*}} -> tensor<5x4xf32>
func.func @main(%x: tensor<1x5x4xf32>, %y: tensor<1x5x4xf32>, %b: tensor<2x1x4xf32>) -> (tensor<5x4xf32>, tensor<1x5x4xf32>) {
  %c = graph.concat %x, %y {axis = 0 : i64} : (tensor<1x5x4xf32>, tensor<1x5x4xf32>) -> tensor<2x5x4xf32>
  %k = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
  %each = graph.constant dense<[[[2.0]], [[3.0]]]> : tensor<2x1x1xf32> : tensor<2x1x1xf32>
  %d = graph.binary mul %c, %k : (tensor<2x5x4xf32>, tensor<1xf32>) -> tensor<2x5x4xf32>
  %e = graph.binary add %d, %b : (tensor<2x5x4xf32>, tensor<2x1x4xf32>) -> tensor<2x5x4xf32>
  %e1 = graph.binary sub %e, %each : (tensor<2x5x4xf32>, tensor<2x1x1xf32>) -> tensor<2x5x4xf32>
  %f = graph.reshape %e1 : (tensor<2x5x4xf32>) -> tensor<1x2x5x4xf32>
  %g = graph.softmax %f {axis = 3 : i64} : tensor<1x2x5x4xf32>
  %h = graph.reshape %g : (tensor<1x2x5x4xf32>) -> tensor<2x5x4xf32>
  %s = graph.slice %h {starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x5x4xf32>) -> tensor<1x5x4xf32>
  %t = graph.slice %h {starts = array<i64: 1, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x5x4xf32>) -> tensor<1x5x4xf32>
  %u = graph.reshape %s : (tensor<1x5x4xf32>) -> tensor<5x4xf32>
  func.return %u, %t : tensor<5x4xf32>, tensor<1x5x4xf32>
}

// -----

// Softmax across the heads reads all of them, and a slice of other rows is no operand.
// CHECK-LABEL: func.func @main
// CHECK:       graph.concat
// CHECK:       graph.concat
func.func @main(%x: tensor<1x2x4xf32>, %y: tensor<1x2x4xf32>) -> (tensor<1x2x4xf32>, tensor<1x1x4xf32>) {
  %c = graph.concat %x, %y {axis = 0 : i64} : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<2x2x4xf32>
  %g = graph.softmax %c {axis = 0 : i64} : tensor<2x2x4xf32>
  %s = graph.slice %g {starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x2x4xf32>) -> tensor<1x2x4xf32>
  %d = graph.concat %x, %y {axis = 0 : i64} : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<2x2x4xf32>
  %t = graph.slice %d {starts = array<i64: 0, 1, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x2x4xf32>) -> tensor<1x1x4xf32>
  func.return %s, %t : tensor<1x2x4xf32>, tensor<1x1x4xf32>
}

// -----

// Columns alternate, and a sum of all heads is another reader.
// CHECK-LABEL: func.func @main
// CHECK:       graph.concat
// CHECK:       graph.concat
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<4x3xf32>) {
  %c = graph.concat %x, %y {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  %s = graph.slice %c {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<2x6xf32>) -> tensor<2x3xf32>
  %d = graph.concat %x, %y {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %t = graph.slice %d {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<4x3xf32>) -> tensor<2x3xf32>
  func.return %s, %t, %d : tensor<2x3xf32>, tensor<2x3xf32>, tensor<4x3xf32>
}

// -----

// Two slices of one operand take one result, which stands before the first of them.
// CHECK-LABEL: func.func @main
// CHECK-NOT:   graph.concat
// CHECK:       [[A:%.+]] = graph.unary <tanh> %x
// CHECK-NEXT:  [[B:%.+]] = graph.reshape [[A]]
// CHECK-NEXT:  [[C:%.+]] = graph.unary <tanh> %y
// CHECK-NEXT:  [[D:%.+]] = graph.reshape [[A]]
// CHECK-NEXT:  func.return [[B]], [[C]], [[D]]
func.func @main(%x: tensor<1x3xf32>, %y: tensor<1x3xf32>) -> (tensor<3xf32>, tensor<1x3xf32>, tensor<3xf32>) {
  %c = graph.concat %x, %y {axis = 0 : i64} : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %d = graph.unary <tanh> %c : tensor<2x3xf32>
  %s = graph.slice %d {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %u = graph.reshape %s : (tensor<1x3xf32>) -> tensor<3xf32>
  %t = graph.slice %d {starts = array<i64: 1, 0>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %v = graph.slice %d {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %w = graph.reshape %v : (tensor<1x3xf32>) -> tensor<3xf32>
  func.return %u, %t, %w : tensor<3xf32>, tensor<1x3xf32>, tensor<3xf32>
}
