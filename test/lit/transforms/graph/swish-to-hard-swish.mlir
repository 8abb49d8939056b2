// RUN: ceras-opt %s --swish-to-hard-swish --split-input-file 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t

// The price is named, once, and nothing is said where nothing was replaced.
// NOTE:     swish-to-hard-swish: warning: 3 swish became hard_swish, each off by up to 0.142; measure the accuracy
// NOTE-NOT: {{note|warning}}

// Alone or fused; what was measured of the network no longer holds.
// CHECK-LABEL: func.func @replace(
// CHECK-NEXT:    graph.unary <hard_swish> %{{.*}} : tensor<1x4xf32>
// CHECK-NEXT:    graph.matmul %{{.*}} {activation = #graph.function<hard_swish>}
// CHECK-NEXT:    graph.binary add %{{.*}} {activation = #graph.function<hard_swish>}
func.func @replace(%x: tensor<1x4xf32>, %w: tensor<4x4xf32>) -> tensor<1x4xf32> {
  %a = graph.unary <swish> %x {graph.range = array<f32: -0.3, 1.0>, graph.exponent = -6 : i64} : tensor<1x4xf32>
  %b = graph.matmul %a, %w {activation = #graph.function<swish>, graph.exponent = -6 : i64} : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %c = graph.binary add %a, %b {activation = #graph.function<swish>} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  func.return %c : tensor<1x4xf32>
}

// -----

// Other functions stay, and so does what is known of them.
// CHECK-LABEL: func.func @others(
// CHECK-NEXT:    graph.unary <sigmoid> %{{.*}} {graph.exponent = -7 : i64}
// CHECK-NEXT:    graph.binary add %{{.*}} {activation = #graph.function<relu>}
func.func @others(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.unary <sigmoid> %x {graph.exponent = -7 : i64} : tensor<4xf32>
  %b = graph.binary add %a, %x {activation = #graph.function<relu>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}
