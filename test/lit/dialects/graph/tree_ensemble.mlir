// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: @trees
func.func @trees(%x: tensor<2x3xf32>) -> tensor<2x2xf32> {
  %features = graph.constant dense<[2, -1]> : tensor<2xi8> : tensor<2xi8>
  %thresholds = graph.constant dense<[0.5, 1.0]> : tensor<2xf32> : tensor<2xf32>
  %children = graph.constant dense<[[1, -1], [-2, -1]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %roots = graph.constant dense<[0, -2]> : tensor<2xi8> : tensor<2xi8>
  %columns = graph.constant dense<[0, 1]> : tensor<2xi8> : tensor<2xi8>
  %leaves = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  // CHECK: graph.tree_ensemble %x, %features, %thresholds, %children, %roots, %columns, %leaves : (tensor<2x3xf32>, tensor<2xi8>, tensor<2xf32>, tensor<2x2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %0 = graph.tree_ensemble %x, %features, %thresholds, %children, %roots, %columns, %leaves : (tensor<2x3xf32>, tensor<2xi8>, tensor<2xf32>, tensor<2x2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return %0 : tensor<2x2xf32>
}
