// RUN: ceras-opt %s --fuse-functions="rules=elementwise" --split-input-file --print-debuginfo | filecheck %s

// The product of a value and its sigmoid, in either order; the name is the product's.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[A:.*]] = graph.unary <swish> %{{.*}} {graph.range = array<f32: -1.0{{.*}}, 3.0{{.*}}>} : tensor<4xf32> loc("swish")
// CHECK-NEXT:    %[[B:.*]] = graph.unary <swish> %[[A]] : tensor<4xf32>
// CHECK-NEXT:    func.return %[[B]]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = graph.unary <sigmoid> %x : tensor<4xf32>
  %a = graph.binary mul %x, %s {graph.range = array<f32: -1.0, 3.0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("swish")
  %t = graph.unary <sigmoid> %a : tensor<4xf32>
  %b = graph.binary mul %t, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

// The sigmoid has another reader: it would be computed twice.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    graph.unary <sigmoid>
// CHECK-NEXT:    graph.binary mul
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = graph.unary <sigmoid> %x : tensor<4xf32>
  %a = graph.binary mul %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %a, %s : tensor<4xf32>, tensor<4xf32>
}

// -----

// A gate: the sigmoid of another value.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.binary mul
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %s = graph.unary <sigmoid> %y : tensor<4xf32>
  %a = graph.binary mul %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// A sum is no product, and a tanh is no sigmoid.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    graph.unary <sigmoid>
// CHECK-NEXT:    graph.binary add
// CHECK-NEXT:    graph.unary <tanh>
// CHECK-NEXT:    graph.binary mul
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = graph.unary <sigmoid> %x : tensor<4xf32>
  %a = graph.binary add %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = graph.unary <tanh> %a : tensor<4xf32>
  %b = graph.binary mul %a, %t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

// As PaddlePaddle and older exporters of PyTorch write it; the name is the product's.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[A:.*]] = graph.unary <hard_swish> %{{.*}} {graph.range = array<f32: -1.0{{.*}}, 3.0{{.*}}>} : tensor<4xf32> loc("swish")
// CHECK-NEXT:    func.return %[[A]]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = graph.unary <hard_sigmoid, 0.1666666716337204, 0.5> %x : tensor<4xf32>
  %a = graph.binary mul %s, %x {graph.range = array<f32: -1.0, 3.0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("swish")
  func.return %a : tensor<4xf32>
}

// -----

// As Keras and hand-written models spell it.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[A:.*]] = graph.unary <hard_swish> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    %[[B:.*]] = graph.unary <hard_swish> %[[A]] : tensor<4xf32>
// CHECK-NEXT:    %[[C:.*]] = graph.unary <hard_sigmoid, 0.16666666666666666, 0.5> %[[B]] : tensor<4xf32>
// CHECK-NEXT:    func.return %[[C]]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %three = graph.constant dense<3.0> : tensor<f32> : tensor<f32>
  %six = graph.constant dense<6.0> : tensor<1xf32> : tensor<1xf32>
  %sixth = graph.constant dense<0.16666667> : tensor<f32> : tensor<f32>
  %a0 = graph.binary add %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %a1 = graph.unary <clip, 0.0, 6.0> %a0 : tensor<4xf32>
  %a2 = graph.binary mul %x, %a1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a = graph.binary div %a2, %six : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %b0 = graph.binary add %three, %a : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %b1 = graph.unary <clip, 0.0, 6.0> %b0 : tensor<4xf32>
  %b2 = graph.binary mul %b1, %sixth : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = graph.binary mul %b2, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c0 = graph.binary add %b, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %c1 = graph.unary <clip, 0.0, 6.0> %c0 : tensor<4xf32>
  %c = graph.binary div %c1, %six : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}

// -----

// Another slope is another function, and a line costs next to nothing for one more reader.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %{{.*}} = graph.unary <hard_sigmoid, 0.2, 0.5>
// CHECK-NEXT:    %{{.*}} = graph.binary mul
// CHECK-NEXT:    %{{.*}} = graph.unary <hard_sigmoid, 0.1666666716337204, 0.5>
// CHECK-NEXT:    %{{.*}} = graph.unary <hard_swish>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = graph.unary <hard_sigmoid, 0.2, 0.5> %x : tensor<4xf32>
  %a = graph.binary mul %s, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = graph.unary <hard_sigmoid, 0.1666666716337204, 0.5> %a : tensor<4xf32>
  %b = graph.binary mul %t, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %t, %b : tensor<4xf32>, tensor<4xf32>
}
