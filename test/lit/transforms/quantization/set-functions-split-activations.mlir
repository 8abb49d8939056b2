// RUN: ceras-opt %s --set-functions="rules=split-activations" --print-debuginfo | filecheck %s
// RUN: ceras-opt %s --set-functions="rules=split-activations" --fuse-epilogues="rules=activations" --set-functions="rules=split-activations" --print-debuginfo | filecheck %s

// What is known of the result belongs to the function now.
// CHECK-LABEL: func.func @split(
// CHECK-NEXT:    %[[A:.*]] = graph.matmul %{{.*}}, %{{.*}} : {{.*}} loc("dense")
// CHECK-NEXT:    %[[B:.*]] = graph.unary <swish> %[[A]] {graph.exponent = -6 : i64} : {{.*}} loc("dense")
// CHECK-NEXT:    %[[C:.*]] = graph.binary mul %[[B]], %[[B]] : {{.*}} loc("square")
// CHECK-NEXT:    %[[D:.*]] = graph.unary <sigmoid> %[[C]] : {{.*}} loc("square")
// CHECK-NEXT:    func.return %[[D]]
func.func @split(%x: tensor<1x4xf32>, %w: tensor<4x4xf32>) -> tensor<1x4xf32> {
  %a = graph.matmul %x, %w {activation = #graph.function<swish>, graph.exponent = -6 : i64} : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32> loc("dense")
  %b = graph.binary mul %a, %a {activation = #graph.function<sigmoid>} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32> loc("square")
  func.return %b : tensor<1x4xf32>
}

// A clamp range can clip.
// CHECK-LABEL: func.func @clips(
// CHECK-NEXT:    graph.matmul %{{.*}} {activation = #graph.function<relu>}
// CHECK-NEXT:    graph.binary add %{{.*}} {activation = #graph.function<clip, -1.0, inf>}
// CHECK-NEXT:    func.return
func.func @clips(%x: tensor<1x4xf32>, %w: tensor<4x4xf32>) -> tensor<1x4xf32> {
  %a = graph.matmul %x, %w {activation = #graph.function<relu>} : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %b = graph.binary add %a, %a {activation = #graph.function<clip, -1.0, inf>} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  func.return %b : tensor<1x4xf32>
}
