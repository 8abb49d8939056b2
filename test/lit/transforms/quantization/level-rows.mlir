// RUN: ceras-opt %s --level-rows | filecheck %s
// RUN: ceras-opt %s -p 'level-rows{residual-spread=2}' | filecheck %s --check-prefix=SPREAD

// The second row is a quarter of the first: it is raised, and its channel divided in float. A layer
// that integers read keeps its rows, and one whose rows are alike.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    graph.equalized
// CHECK:         %[[W:.*]] = graph.constant dense<{{\[\[}}1.000000e+00, 5.000000e-01], [1.000000e+00, -1.000000e+00]]>
// CHECK:         %[[B:.*]] = graph.constant dense<[3.000000e+00, 1.200000e+01]>
// CHECK:         %[[A:.*]] = graph.matmul %{{.*}}, %[[W]] bias %[[B]]
// CHECK:         %[[S:.*]] = graph.binary mul %[[A]], %{{.*}} {graph.precision = "f32"
// CHECK-NEXT:    graph.unary <sigmoid> %[[S]]
// CHECK:         %[[C:.*]] = graph.matmul
// CHECK:         %[[D:.*]] = graph.matmul %[[C]]
// CHECK-NEXT:    func.return %{{.*}}, %[[D]]
// SPREAD-LABEL: func.func @main(
// SPREAD-NOT:    graph.binary
func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %u = graph.constant dense<[[1.0, 0.5], [0.25, -0.25]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %b = graph.constant dense<3.0> : tensor<2xf32> : tensor<2xf32>
  %v = graph.constant dense<[[1.0, 0.5], [0.25, 0.25]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %w = graph.constant dense<[[1.0, 0.5], [1.0, -0.75]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %a = graph.matmul %x, %u bias %b : tensor<2xf32> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %s = graph.unary <sigmoid> %a {graph.precision = "f32"} : tensor<1x2xf32>
  %c = graph.matmul %x, %v : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %d = graph.matmul %c, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %s, %d : tensor<1x2xf32>, tensor<1x2xf32>
}
