// RUN: ceras-opt %s --fuse-swish --print-debuginfo | filecheck %s

// The product of a value and its sigmoid, in either order; the name is the product's.
// CHECK-LABEL: func.func @both_orders(
// CHECK-NEXT:    %[[A:.*]] = graph.unary <swish> %{{.*}} {graph.range = array<f32: -1.0{{.*}}, 3.0{{.*}}>} : tensor<4xf32> loc("swish")
// CHECK-NEXT:    %[[B:.*]] = graph.unary <swish> %[[A]] : tensor<4xf32>
// CHECK-NEXT:    func.return %[[B]]
func.func @both_orders(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = graph.unary <sigmoid> %x : tensor<4xf32>
  %a = graph.binary mul %x, %s {graph.range = array<f32: -1.0, 3.0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("swish")
  %t = graph.unary <sigmoid> %a : tensor<4xf32>
  %b = graph.binary mul %t, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// What was fused into the product follows it.
// CHECK-LABEL: func.func @activation(
// CHECK-NEXT:    %[[S:.*]] = graph.unary <swish> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    graph.unary <relu> %[[S]] : tensor<4xf32>
// CHECK-NEXT:    func.return
func.func @activation(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = graph.unary <sigmoid> %x : tensor<4xf32>
  %a = graph.binary mul %x, %s {activation = #graph.function<relu>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// The sigmoid has another reader: it would be computed twice.
// CHECK-LABEL: func.func @shared_sigmoid(
// CHECK-NEXT:    graph.unary <sigmoid>
// CHECK-NEXT:    graph.binary mul
func.func @shared_sigmoid(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = graph.unary <sigmoid> %x : tensor<4xf32>
  %a = graph.binary mul %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %a, %s : tensor<4xf32>, tensor<4xf32>
}

// A gate: the sigmoid of another value.
// CHECK-LABEL: func.func @gate(
// CHECK:         graph.binary mul
func.func @gate(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %s = graph.unary <sigmoid> %y : tensor<4xf32>
  %a = graph.binary mul %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// A sum is no product, and a tanh is no sigmoid.
// CHECK-LABEL: func.func @others(
// CHECK-NEXT:    graph.unary <sigmoid>
// CHECK-NEXT:    graph.binary add
// CHECK-NEXT:    graph.unary <tanh>
// CHECK-NEXT:    graph.binary mul
func.func @others(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = graph.unary <sigmoid> %x : tensor<4xf32>
  %a = graph.binary add %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = graph.unary <tanh> %a : tensor<4xf32>
  %b = graph.binary mul %a, %t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}
