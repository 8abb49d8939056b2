// RUN: ceras-opt %s --fold-affine="rules=clips" --print-debuginfo | filecheck %s

// Bounds that overlap: what both let through.
// CHECK-LABEL: func.func @overlap(
// CHECK-NEXT:    graph.unary <clip, 0.0, 3.75> %{{.*}} {graph.range = array<f32: 0.0{{.*}}, 3.7{{.*}}>} : tensor<4xf32> loc(fused["relu", "clip"])
// CHECK-NEXT:    func.return
func.func @overlap(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.unary <relu> %x : tensor<4xf32> loc("relu")
  %b = graph.unary <clip, -1.0, 3.75> %a {graph.range = array<f32: 0.0, 3.75>} : tensor<4xf32> loc("clip")
  func.return %b : tensor<4xf32>
}

// Bounds that do not: one number, the inner bound as the outer clip has it. Three become one.
// CHECK-LABEL: func.func @apart(
// CHECK-NEXT:    graph.unary <clip, 2.0, 2.0>
// CHECK-NEXT:    graph.unary <relu>
// CHECK-NEXT:    func.return
func.func @apart(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = graph.unary <clip, -1.0, 1.0> %x : tensor<4xf32>
  %b = graph.unary <clip, 2.0, 3.0> %a : tensor<4xf32>
  %c = graph.unary <clip, -1.0, inf> %y : tensor<4xf32>
  %d = graph.unary <relu> %c : tensor<4xf32>
  %e = graph.unary <clip, -2.0, inf> %d : tensor<4xf32>
  func.return %b, %e : tensor<4xf32>, tensor<4xf32>
}

// What else reads the inner clip would keep it; other functions are no clips.
// CHECK-LABEL: func.func @stay(
// CHECK-NEXT:    graph.unary <relu>
// CHECK-NEXT:    graph.unary <clip, -inf, 6.0>
// CHECK-NEXT:    graph.unary <tanh>
// CHECK-NEXT:    graph.unary <relu>
// CHECK-NEXT:    func.return
func.func @stay(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = graph.unary <relu> %x : tensor<4xf32>
  %b = graph.unary <clip, -inf, 6.0> %a : tensor<4xf32>
  %c = graph.unary <tanh> %b : tensor<4xf32>
  %d = graph.unary <relu> %c : tensor<4xf32>
  func.return %a, %d : tensor<4xf32>, tensor<4xf32>
}
