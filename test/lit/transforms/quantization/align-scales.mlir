// RUN: ceras-opt %s --align-scales --split-input-file | filecheck %s
// RUN: ceras-opt %s --align-scales --align-scales --split-input-file | filecheck %s

// Read by the concatenation alone: made at its scale, through the pooling too.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    graph.requantizations = {before = 3 : i64, after = 0 : i64}
// CHECK-NEXT:    graph.unary <tanh> %{{.*}} {graph.exponent = -4 : i64}
// CHECK-NEXT:    graph.unary <exp> %{{.*}} {graph.exponent = -4 : i64}
// CHECK-NEXT:    graph.pool2d max %{{.*}} {graph.exponent = -4 : i64,
// CHECK-NEXT:    graph.concat %{{.*}} {graph.exponent = -4 : i64,
func.func @main(%x: tensor<1x2x2x1xf32> {graph.exponent = -6 : i64}) -> tensor<1x2x2x2xf32> {
  %a = graph.unary <tanh> %x {graph.exponent = -7 : i64} : tensor<1x2x2x1xf32>
  %b = graph.unary <exp> %x {graph.exponent = -2 : i64} : tensor<1x2x2x1xf32>
  %c = graph.pool2d max %b {kernel = array<i64: 1, 1>, graph.exponent = -3 : i64} : (tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  %d = graph.concat %a, %c {axis = 3 : i64, graph.exponent = -4 : i64} : (tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x2xf32>
  func.return %d : tensor<1x2x2x2xf32>
}

// -----

// Read elsewhere too: %a and %x keep their scales and are rescaled at run time. The reader of the
// pooling asks for nothing, so %b and its pooling share the coarser of the exponents that
// are read, that of %b being read by the sum.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    graph.requantizations = {before = 3 : i64, after = 2 : i64}
// CHECK-NEXT:    graph.unary <tanh> %{{.*}} {graph.exponent = -7 : i64}
// CHECK-NEXT:    graph.unary <exp> %{{.*}} {graph.exponent = -2 : i64}
// CHECK-NEXT:    graph.pool2d max %{{.*}} {graph.exponent = -2 : i64,
// CHECK-NEXT:    graph.binary add %{{.*}} {graph.exponent = -2 : i64}
// CHECK-NEXT:    graph.concat %{{.*}} {graph.exponent = -4 : i64,
func.func @main(%x: tensor<1x2x2x1xf32> {graph.exponent = -6 : i64}) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x1xf32>) {
  %a = graph.unary <tanh> %x {graph.exponent = -7 : i64} : tensor<1x2x2x1xf32>
  %b = graph.unary <exp> %x {graph.exponent = -2 : i64} : tensor<1x2x2x1xf32>
  %c = graph.pool2d max %b {kernel = array<i64: 1, 1>, graph.exponent = -3 : i64} : (tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  %d = graph.binary add %b, %a {graph.exponent = -2 : i64} : (tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  %e = graph.concat %a, %x {axis = 3 : i64, graph.exponent = -4 : i64} : (tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x2xf32>
  %f = graph.binary mul %c, %d {graph.exponent = 1 : i64} : (tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  func.return %e, %f : tensor<1x2x2x2xf32>, tensor<1x2x2x1xf32>
}

// -----

// A result is no finer than its accumulator: -3 + -2 for the product, -3 for the sum. A
// shift of 39 is too long: the weights become coarser.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    graph.requantizations = {before = 0 : i64, after = 0 : i64}
// CHECK-NEXT:    graph.constant
// CHECK-NEXT:    graph.matmul %{{.*}} {graph.weight_exponent = -2 : i64, graph.exponent = -5 : i64}
// CHECK-NEXT:    graph.binary add %{{.*}} {graph.exponent = -3 : i64}
// CHECK-NEXT:    graph.binary mul %{{.*}} {graph.exponent = -6 : i64}
// CHECK-NEXT:    graph.matmul %{{.*}} {graph.weight_exponent = -12 : i64, graph.exponent = 16 : i64}
func.func @main(%x: tensor<1x1xf32> {graph.exponent = -3 : i64}) -> (tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>) {
  %w = graph.constant dense<1.0> : tensor<1x1xf32> : tensor<1x1xf32>
  %a = graph.matmul %x, %w {graph.weight_exponent = -2 : i64, graph.exponent = -9 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %b = graph.binary add %x, %x {graph.exponent = -9 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %c = graph.binary mul %b, %x {graph.exponent = -9 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %d = graph.matmul %x, %w {graph.weight_exponent = -20 : i64, graph.exponent = 16 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  func.return %a, %c, %d : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>
}

// -----

// The bias of 2^12 would be 2^31 steps of 2^-19: with weights twice as coarse it fits.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.matmul %{{.*}} {graph.weight_exponent = -11 : i64, graph.exponent = 6 : i64}
func.func @main(%x: tensor<1x1xf32> {graph.exponent = -7 : i64}) -> tensor<1x1xf32> {
  %w = graph.constant dense<0.01> : tensor<1x1xf32> : tensor<1x1xf32>
  %b = graph.constant dense<4096.0> : tensor<1xf32> : tensor<1xf32>
  %a = graph.matmul %x, %w bias %b : tensor<1xf32> {graph.weight_exponent = -12 : i64, graph.exponent = 6 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  func.return %a : tensor<1x1xf32>
}

// -----

// A concatenation in a concatenation: all of it at the outer one's scale. Constants have no
// scale of their own, and what is returned as it is keeps its own.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    graph.exponent = -6 : i64}
// CHECK-SAME:    graph.requantizations = {before = 3 : i64, after = 1 : i64}
// CHECK:         graph.unary <exp> %{{.*}} {graph.exponent = -2 : i64}
// CHECK-NEXT:    graph.concat %{{.*}} {graph.exponent = -2 : i64,
// CHECK-NEXT:    graph.concat %{{.*}} {graph.exponent = -2 : i64,
func.func @main(%x: tensor<2xf32> {graph.exponent = -6 : i64}) -> (tensor<8xf32>, tensor<2xf32>) {
  %k = graph.constant dense<1.0> : tensor<2xf32> : tensor<2xf32>
  %a = graph.unary <exp> %x {graph.exponent = -7 : i64} : tensor<2xf32>
  %b = graph.concat %a, %k {axis = 0 : i64, graph.exponent = -5 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  %c = graph.concat %b, %x, %k {axis = 0 : i64, graph.exponent = -2 : i64} : (tensor<4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<8xf32>
  func.return %c, %x : tensor<8xf32>, tensor<2xf32>
}
