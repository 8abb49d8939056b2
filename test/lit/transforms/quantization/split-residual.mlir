// RUN: ceras-opt %s --split-residual | filecheck %s
// RUN: ceras-opt %s -p 'split-residual{residual-spread=6}' | filecheck %s --check-prefix=SPREAD

// The second row of the first weights rounds to nothing at the first row's scale: with a scale of
// its own it does not, which is worth an addition. The rows of the others are alike.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[P:.*]] = graph.matmul %{{[a-z]*}}, %{{[a-z]*}} :
// CHECK-NEXT:    %[[S:.*]] = graph.binary add %[[P]],
// CHECK-NEXT:    graph.matmul %[[S]], %{{.*}} residual %[[S]]
// Where the residual's shifts may differ by as much as the scales, it stays.
// SPREAD:         graph.matmul %{{.*}} residual
// SPREAD-NEXT:    graph.matmul %{{.*}} residual
func.func @main(%x: tensor<1x2xf32>, %r: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %apart = graph.constant dense<[[3.0, 0.3], [0.011, 0.013]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %alike = graph.constant dense<[[3.0, 0.3], [2.9, 0.31]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %a = graph.matmul %x, %apart residual %r : tensor<1x2xf32> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %b = graph.matmul %a, %alike residual %a : tensor<1x2xf32> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %b : tensor<1x2xf32>
}
