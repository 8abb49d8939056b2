// RUN: ceras-opt %s --fuse-functions="rules=softmax" --split-input-file | filecheck %s
// RUN: ceras-opt %s --fuse --split-input-file | filecheck %s

// Exponentials over their sum, times a reciprocal, with the maximum taken off.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: graph.softmax %x {axis = 1 : i64} : tensor<3x2xf32>
// CHECK-NEXT: func.return
func.func @main(%x: tensor<3x2xf32> {graph.name = "x"}) -> (tensor<3x2xf32> {graph.name = "y"}) {
  %one = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.reduce max %x {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %1 = graph.binary sub %x, %0 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  %2 = graph.unary <exp> %1 : tensor<3x2xf32>
  %3 = graph.reduce sum %2 {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %4 = graph.binary div %one, %3 : (tensor<1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %5 = graph.binary mul %2, %4 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  func.return %5 : tensor<3x2xf32>
}

// -----

// Without the maximum, of scaled scores.
// CHECK-LABEL: func.func @main
// CHECK:      [[S:%.+]] = graph.binary mul %x, %k
// CHECK-NEXT: graph.softmax [[S]] {axis = 1 : i64} : tensor<3x2xf32>
// CHECK-NEXT: func.return
func.func @main(%x: tensor<3x2xf32> {graph.name = "x"}) -> (tensor<3x2xf32> {graph.name = "y"}) {
  %k = graph.constant dense<0.25> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.binary mul %x, %k : (tensor<3x2xf32>, tensor<1xf32>) -> tensor<3x2xf32>
  %1 = graph.unary <exp> %0 : tensor<3x2xf32>
  %2 = graph.reduce sum %1 {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %3 = graph.binary div %1, %2 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  func.return %3 : tensor<3x2xf32>
}

// -----

// A small addend in the denominator, and rows that are columns: nothing.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.softmax
func.func @main(%x: tensor<3x2xf32> {graph.name = "x"}) -> (tensor<3x2xf32> {graph.name = "y"}, tensor<3x2xf32> {graph.name = "z"}) {
  %e = graph.constant dense<0.01> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.unary <exp> %x : tensor<3x2xf32>
  %1 = graph.reduce sum %0 {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %2 = graph.binary add %1, %e : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  %3 = graph.binary div %0, %2 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  %4 = graph.reduce sum %0 {axes = array<i64: 0>} : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %5 = graph.binary div %0, %4 : (tensor<3x2xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
  func.return %3, %5 : tensor<3x2xf32>, tensor<3x2xf32>
}
