// RUN: ceras-opt %s --fold-affine="rules=functions" --print-debuginfo | filecheck %s
// RUN: ceras-opt %s --fold-affine="rules=functions" --fuse-epilogues="rules=activations" | filecheck %s --check-prefix EPILOGUE
// RUN: ceras-opt %s --fold-affine="rules=functions" --split-affine | filecheck %s --check-prefix SPLIT

// One factor and one addend, each on either side, become the function's.
// CHECK-LABEL: func.func @behind(
// CHECK-NEXT:    graph.unary <hard_swish, scale 0.75, offset -0.5> %{{.*}} {graph.range = array<f32: -1.0{{.*}}, 3.0{{.*}}>} : tensor<1x4xf32> loc(fused["f", "scaled", "moved"])
// CHECK-NEXT:    func.return
// EPILOGUE-LABEL: func.func @behind(
// SPLIT-LABEL: func.func @behind(
// SPLIT:         %[[F:.*]] = graph.unary <hard_swish> %{{.*}} : tensor<1x4xf32>
// SPLIT:         %[[M:.*]] = graph.binary mul %[[F]], %{{.*}} : (tensor<1x4xf32>, tensor<1xf32>) -> tensor<1x4xf32>
// SPLIT:         %[[A:.*]] = graph.binary add %[[M]], %{{.*}} {graph.range = {{.*}}} : (tensor<1x4xf32>, tensor<1xf32>) -> tensor<1x4xf32>
// SPLIT:         func.return %[[A]]
func.func @behind(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %a = graph.constant dense<0.75> : tensor<1xf32> : tensor<1xf32>
  %b = graph.constant dense<-0.5> : tensor<f32> : tensor<f32>
  %f = graph.unary <hard_swish> %x : tensor<1x4xf32> loc("f")
  %m = graph.binary mul %a, %f : (tensor<1xf32>, tensor<1x4xf32>) -> tensor<1x4xf32> loc("scaled")
  %y = graph.binary add %m, %b {graph.range = array<f32: -1.0, 3.0>} : (tensor<1x4xf32>, tensor<f32>) -> tensor<1x4xf32> loc("moved")
  func.return %y : tensor<1x4xf32>
}

// A product behind an offset would be rounded otherwise, and stays; so does a second offset.
// CHECK-LABEL: func.func @order(
// CHECK:         graph.unary <elu, 1.0, scale 1.0, offset 0.5>
// CHECK-NEXT:    graph.binary mul
// CHECK-NEXT:    graph.binary add
func.func @order(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
  %f = graph.unary <elu, 1.0> %x : tensor<4xf32>
  %b = graph.binary add %f, %a : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %m = graph.binary mul %b, %a : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %y = graph.binary add %m, %a : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// In front of a clip the layer can take them in; what is never negative stays a relu.
// CHECK-LABEL: func.func @clips(
// CHECK:         %[[M:.*]] = graph.binary mul %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
// CHECK-NEXT:    %[[R:.*]] = graph.unary <relu> %[[M]]
// CHECK-NEXT:    %[[A:.*]] = graph.binary add %[[R]], %{{.*}}
// CHECK-NEXT:    %[[B:.*]] = graph.binary add %{{.*}}, %[[A]]
// CHECK-NEXT:    graph.unary <clip, 1.5, 4.5> %[[B]]
func.func @clips(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
  %c = graph.constant dense<1.5> : tensor<1xf32> : tensor<1xf32>
  %r = graph.unary <relu> %x : tensor<4xf32>
  %m = graph.binary mul %r, %a : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %s = graph.binary add %m, %z : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %f = graph.unary <clip, 0.0, 3.0> %s : tensor<4xf32>
  %y = graph.binary add %c, %f : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// What something else reads stays, and so do factors of channels, and factors below zero. So does
// the sum behind an error function: all that is GELU.
// CHECK-LABEL: func.func @stays(
// CHECK:         graph.unary <sigmoid>
// CHECK-NEXT:    graph.binary mul
// CHECK-NEXT:    graph.unary <erf>
// CHECK-NEXT:    graph.binary add
// CHECK-NEXT:    graph.unary <elu, 1.0>
// CHECK-NEXT:    graph.binary mul
// CHECK-NEXT:    graph.unary <relu>
// CHECK-NEXT:    graph.binary mul
// CHECK-NEXT:    func.return
func.func @stays(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = graph.constant dense<-0.5> : tensor<1xf32> : tensor<1xf32>
  %c = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> : tensor<4xf32>
  %s = graph.unary <sigmoid> %x : tensor<4xf32>
  %m = graph.binary mul %s, %a : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %e = graph.unary <erf> %m : tensor<4xf32>
  %d = graph.binary add %e, %a : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %t = graph.unary <elu, 1.0> %d : tensor<4xf32>
  %n = graph.binary mul %t, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = graph.unary <relu> %n : tensor<4xf32>
  %o = graph.binary mul %r, %a : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  func.return %s, %o : tensor<4xf32>, tensor<4xf32>
}

// EPILOGUE-LABEL: func.func @layer(
// EPILOGUE:         graph.matmul {{.*}}activation = #graph.function<hard_swish, scale 2.0, offset 0.0>
// EPILOGUE-NEXT:    func.return
func.func @layer(%x: tensor<1x4xf32>, %w: tensor<4x4xf32>) -> tensor<1x4xf32> {
  %a = graph.constant dense<2.0> : tensor<1xf32> : tensor<1xf32>
  %p = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %f = graph.unary <hard_swish> %p : tensor<1x4xf32>
  %y = graph.binary mul %f, %a : (tensor<1x4xf32>, tensor<1xf32>) -> tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}
