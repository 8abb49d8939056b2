// RUN: ceras-opt %s --fold-identities="rules=expands" | filecheck %s

// A gate for each channel, repeated along height and width.
// CHECK-LABEL: func.func @gate(
// CHECK-NEXT:    graph.binary mul %x, %g : (tensor<1x2x2x3xf32>, tensor<1x1x1x3xf32>) -> tensor<1x2x2x3xf32>
// CHECK-NEXT:    func.return
func.func @gate(%x: tensor<1x2x2x3xf32>, %g: tensor<1x1x1x3xf32>) -> tensor<1x2x2x3xf32> {
  %a = graph.gather %g {axis = 1 : i64, indices = array<i64: 0, 0>} : (tensor<1x1x1x3xf32>) -> tensor<1x2x1x3xf32>
  %b = graph.gather %a {axis = 2 : i64, indices = array<i64: 0, 0>} : (tensor<1x2x1x3xf32>) -> tensor<1x2x2x3xf32>
  %y = graph.binary mul %x, %b : (tensor<1x2x2x3xf32>, tensor<1x2x2x3xf32>) -> tensor<1x2x2x3xf32>
  func.return %y : tensor<1x2x2x3xf32>
}

// Nothing else has as many elements; two elements are no repetition; others read it as it is.
// CHECK-LABEL: func.func @stay(
// CHECK-NEXT:    %[[A:.*]] = graph.gather
// CHECK-NEXT:    graph.binary mul %[[A]], %g
// CHECK-NEXT:    %[[B:.*]] = graph.gather
// CHECK-NEXT:    graph.binary add %{{.*}}, %[[B]]
// CHECK-NEXT:    func.return
func.func @stay(%g: tensor<1x3xf32>, %x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %a = graph.gather %g {axis = 0 : i64, indices = array<i64: 0, 0>} : (tensor<1x3xf32>) -> tensor<2x3xf32>
  %y = graph.binary mul %a, %g : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %b = graph.gather %x {axis = 0 : i64, indices = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %z = graph.binary add %x, %b : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %y, %z, %a : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// A gate that was made in another layout.
// CHECK-LABEL: func.func @transposed(
// CHECK-NEXT:    graph.binary mul %x, %g : (tensor<1x2x2x3xf32>, tensor<1x1x1x3xf32>) -> tensor<1x2x2x3xf32>
// CHECK-NEXT:    func.return
func.func @transposed(%x: tensor<1x2x2x3xf32>, %g: tensor<1x1x1x3xf32>) -> tensor<1x2x2x3xf32> {
  %r = graph.reshape %g : (tensor<1x1x1x3xf32>) -> tensor<1x3x1x1xf32>
  %a = graph.gather %r {axis = 2 : i64, indices = array<i64: 0, 0>} : (tensor<1x3x1x1xf32>) -> tensor<1x3x2x1xf32>
  %b = graph.gather %a {axis = 3 : i64, indices = array<i64: 0, 0>} : (tensor<1x3x2x1xf32>) -> tensor<1x3x2x2xf32>
  %t = graph.transpose %b {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x3x2x2xf32>) -> tensor<1x2x2x3xf32>
  %y = graph.binary mul %x, %t : (tensor<1x2x2x3xf32>, tensor<1x2x2x3xf32>) -> tensor<1x2x2x3xf32>
  func.return %y : tensor<1x2x2x3xf32>
}
