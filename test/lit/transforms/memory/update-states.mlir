// RUN: ceras-opt %s --split-input-file --update-states | filecheck %s

// A sliding window: the last rows and the new row.
// CHECK-LABEL: func.func @main(
// CHECK:         %y = graph.update %r into %x {axis = 1 : i64}
// CHECK-NEXT:    func.return %y
func.func @main(%x: tensor<2x4x3xf32> {graph.name = "past", graph.state = "new"}, %r: tensor<2x1x3xf32>)
    -> (tensor<2x4x3xf32> {graph.name = "new"}) {
  %p = graph.slice %x {starts = array<i64: 0, 1, 0>, strides = array<i64: 1, 1, 1>}
      : (tensor<2x4x3xf32>) -> tensor<2x3x3xf32>
  %y = graph.concat %p, %r {axis = 1 : i64} : (tensor<2x3x3xf32>, tensor<2x1x3xf32>) -> tensor<2x4x3xf32>
  func.return %y : tensor<2x4x3xf32>
}

// -----

// A row of a transposed state: other uses of the transposed state are kept.
// CHECK-LABEL: func.func @main(
// CHECK:         %0 = graph.reshape %r : (tensor<1x6xf32>) -> tensor<2x1x3xf32>
// CHECK-NEXT:    %y = graph.update %0 into %x at %i : tensor<1xi64> {axis = 1 : i64, wraps}
// CHECK-NEXT:    %t = graph.transpose %y {permutation = array<i64: 1, 0, 2>}
// CHECK-NEXT:    %f = graph.reshape %t : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
// CHECK-NEXT:    func.return %y, %f
func.func @main(%x: tensor<2x4x3xf32> {graph.name = "past", graph.state = "new"}, %r: tensor<1x6xf32>,
    %i: tensor<1xi64>) -> (tensor<2x4x3xf32> {graph.name = "new"}, tensor<4x6xf32>) {
  %t = graph.transpose %x {permutation = array<i64: 1, 0, 2>} : (tensor<2x4x3xf32>) -> tensor<4x2x3xf32>
  %f = graph.reshape %t : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
  %p = graph.put %r into %f[%i] : (tensor<4x6xf32>, tensor<1xi64>, tensor<1x6xf32>) -> tensor<4x6xf32>
  %g = graph.reshape %p : (tensor<4x6xf32>) -> tensor<4x2x3xf32>
  %y = graph.transpose %g {permutation = array<i64: 1, 0, 2>} : (tensor<4x2x3xf32>) -> tensor<2x4x3xf32>
  func.return %y, %p : tensor<2x4x3xf32>, tensor<4x6xf32>
}

// -----

// A row where all indices are compared with the position.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.update %r into %x at %i : tensor<1xi64> {axis = 1 : i64} :
func.func @main(%x: tensor<2x4x3xf32> {graph.name = "past", graph.state = "new"}, %r: tensor<2x1x3xf32>,
    %i: tensor<1xi64>) -> (tensor<2x4x3xf32> {graph.name = "new"}) {
  %n = graph.constant dense<[[[0], [1], [2], [3]]]> : tensor<1x4x1xi64> : tensor<1x4x1xi64>
  %c = graph.compare equal %n, %i : (tensor<1x4x1xi64>, tensor<1xi64>) -> tensor<1x4x1xi1>
  %y = graph.select %c, %r, %x : (tensor<1x4x1xi1>, tensor<2x1x3xf32>, tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  func.return %y : tensor<2x4x3xf32>
}

// -----

// These are no updates: indices in another order, and a row in columns of the state.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:     graph.update
func.func @main(%x: tensor<4x3xf32> {graph.name = "past", graph.state = "new"}, %r: tensor<1x3xf32>,
    %i: tensor<1xi64>, %z: tensor<2x3xf32> {graph.name = "old", graph.state = "next"}, %s: tensor<1x3xf32>)
    -> (tensor<4x3xf32> {graph.name = "new"}, tensor<2x3xf32> {graph.name = "next"}) {
  %n = graph.constant dense<[[1], [0], [2], [3]]> : tensor<4x1xi64> : tensor<4x1xi64>
  %c = graph.compare equal %n, %i : (tensor<4x1xi64>, tensor<1xi64>) -> tensor<4x1xi1>
  %y = graph.select %c, %r, %x : (tensor<4x1xi1>, tensor<1x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %f = graph.reshape %z : (tensor<2x3xf32>) -> tensor<6xf32>
  %g = graph.reshape %f : (tensor<6xf32>) -> tensor<3x2xf32>
  %u = graph.reshape %g : (tensor<3x2xf32>) -> tensor<6x1xf32>
  %v = graph.reshape %s : (tensor<1x3xf32>) -> tensor<3x1xf32>
  %w = graph.slice %v {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<3x1xf32>) -> tensor<1x1xf32>
  %p = graph.put %w into %u[%i] : (tensor<6x1xf32>, tensor<1xi64>, tensor<1x1xf32>) -> tensor<6x1xf32>
  %q = graph.reshape %p : (tensor<6x1xf32>) -> tensor<2x3xf32>
  func.return %y, %q : tensor<4x3xf32>, tensor<2x3xf32>
}

// -----

// A float cache that all consumers quantize is stored as integers. Its rows have them already.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %x: tensor<2x4x3x!quant.uniform<i8:f32, 0.5>> {graph.name = "past", graph.state = "new"}
// CHECK:         %0 = graph.reshape %r
// CHECK-NEXT:    %y = graph.update %0 into %x at %i : tensor<1xi64> {axis = 1 : i64}
// CHECK-NEXT:    %t = graph.reshape %y
// CHECK-NEXT:    func.return %y, %t
!q = !quant.uniform<i8:f32, 0.5>
func.func @main(%x: tensor<2x4x3xf32> {graph.name = "past", graph.state = "new"}, %r: tensor<2x3x!q>,
    %i: tensor<1xi64>) -> (tensor<2x4x3xf32> {graph.name = "new"}, tensor<8x3x!q>) {
  %f = graph.dequantize %r : (tensor<2x3x!q>) -> tensor<2x3xf32>
  %g = graph.reshape %f : (tensor<2x3xf32>) -> tensor<2x1x3xf32>
  %n = graph.constant dense<[[[0], [1], [2], [3]]]> : tensor<1x4x1xi64> : tensor<1x4x1xi64>
  %c = graph.compare equal %n, %i : (tensor<1x4x1xi64>, tensor<1xi64>) -> tensor<1x4x1xi1>
  %y = graph.select %c, %g, %x : (tensor<1x4x1xi1>, tensor<2x1x3xf32>, tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %t = graph.reshape %y : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  %q = graph.quantize %t : (tensor<8x3xf32>) -> tensor<8x3x!q>
  func.return %y, %q : tensor<2x4x3xf32>, tensor<8x3x!q>
}

// -----

// Rows of another type are quantized. A cache with consumers in float remains float.
// CHECK-LABEL: func.func @main(
// CHECK:         [[Q:%.*]] = graph.quantize %r : (tensor<1x3xf32>) -> tensor<1x3x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    graph.update [[Q]] into %x
// CHECK:         graph.update %r into %z {axis = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
!q = !quant.uniform<i8:f32, 0.5>
func.func @main(%x: tensor<4x3xf32> {graph.name = "past", graph.state = "new"}, %r: tensor<1x3xf32>,
    %z: tensor<4x3xf32> {graph.name = "old", graph.state = "next"})
    -> (tensor<4x3xf32> {graph.name = "new"}, tensor<4x3xf32> {graph.name = "next"}, tensor<4x3x!q>, tensor<4x3x!q>,
        tensor<4x3xf32>) {
  %a = graph.concat %x, %r {axis = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<5x3xf32>
  %y = graph.slice %a {starts = array<i64: 1, 0>, strides = array<i64: 1, 1>} : (tensor<5x3xf32>) -> tensor<4x3xf32>
  %b = graph.concat %z, %r {axis = 0 : i64} : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<5x3xf32>
  %w = graph.slice %b {starts = array<i64: 1, 0>, strides = array<i64: 1, 1>} : (tensor<5x3xf32>) -> tensor<4x3xf32>
  %p = graph.quantize %y : (tensor<4x3xf32>) -> tensor<4x3x!q>
  %q = graph.quantize %w : (tensor<4x3xf32>) -> tensor<4x3x!q>
  %e = graph.unary <exp> %w : tensor<4x3xf32>
  func.return %y, %w, %p, %q, %e : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3x!q>, tensor<4x3x!q>, tensor<4x3xf32>
}
