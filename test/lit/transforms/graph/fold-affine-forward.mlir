// RUN: ceras-opt %s --fold-affine="rules=forward" --split-input-file --print-debuginfo | filecheck %s

// Factors go into the weights of both readers, for groups into their own columns.
func.func @main(%x: tensor<1x3x3x2xf32>) -> (tensor<1x3x3x1xf32>, tensor<1x3x3x2xf32>) {
  %k = graph.constant dense<[2.0, 4.0]> : tensor<2xf32> : tensor<2xf32>
  %w = graph.constant dense<[[[[1.0, 1.0]]]]> : tensor<1x1x1x2xf32> : tensor<1x1x1x2xf32>
  %v = graph.constant dense<[[[[1.0]]], [[[3.0]]]]> : tensor<2x1x1x1xf32> : tensor<2x1x1x1xf32>
  %p = graph.pool2d max %x {kernel = array<i64: 1, 1>} : (tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32>
  %c = graph.conv2d %p, %v {groups = 2 : i64} : (tensor<1x3x3x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x3x3x2xf32>
  %d = graph.pool2d max %c {kernel = array<i64: 1, 1>} : (tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32>
  %m = graph.binary mul %d, %k : (tensor<1x3x3x2xf32>, tensor<2xf32>) -> tensor<1x3x3x2xf32> loc("scale")
  %y = graph.conv2d %m, %w {padding = array<i64: 0, 0, 0, 0>} : (tensor<1x3x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x3x3x1xf32> loc("y")
  %z = graph.conv2d %m, %v {groups = 2 : i64, activation = #graph.function<relu>} : (tensor<1x3x3x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x3x3x2xf32> loc("z")
  func.return %y, %z : tensor<1x3x3x1xf32>, tensor<1x3x3x2xf32>
}

// CHECK-LABEL: func.func @main
// CHECK:       %[[D:d]] = graph.pool2d max
// CHECK-DAG:   dense<{{\[\[\[\[}}2.000000e+00, 4.000000e+00]]]]>
// CHECK-DAG:   graph.conv2d %[[D]], %{{.*}} : (tensor<1x3x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x3x3x1xf32> loc(fused["y", "scale"])
// CHECK-DAG:   dense<{{\[\[\[\[}}2.000000e+00]]], {{\[\[\[}}1.200000e+01]]]]>
// CHECK-DAG:   graph.conv2d %[[D]], %{{.*}} {groups = 2 : i64, activation = #graph.function<relu>}
// CHECK-NOT:   graph.binary
// CHECK:       func.return

// -----

// An addend becomes a bias: 1 * 0.5 + 2 * -1.0 less what was there. With a factor before it both go.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %k = graph.constant dense<[2.0, 4.0]> : tensor<2xf32> : tensor<2xf32>
  %t = graph.constant dense<[0.5, -1.0]> : tensor<2xf32> : tensor<2xf32>
  %w = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %v = graph.constant dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %b = graph.constant dense<[0.25]> : tensor<1xf32> : tensor<1xf32>
  %c = graph.matmul %x, %v : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %d = graph.unary <relu> %c : tensor<1x2xf32>
  %m = graph.binary mul %d, %k : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %a = graph.binary add %m, %t : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %y = graph.matmul %a, %w bias %b : tensor<1xf32> : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK:       %[[R:.*]] = graph.unary <relu>
// CHECK-DAG:   dense<-1.25
// CHECK-DAG:   dense<{{\[\[}}2.000000e+00, 8.000000e+00]]>
// CHECK:       graph.matmul %[[R]], %{{.*}} bias
// CHECK-NEXT:  func.return

// -----

// Padding is zero in front of the sum. Something else reads a product. What prepares inputs stays.
func.func @main(%x: tensor<1x3x3x1xf32>) -> (tensor<1x3x3x1xf32>, tensor<1x3x3x1xf32>) {
  %k = graph.constant dense<2.0> : tensor<1xf32> : tensor<1xf32>
  %w = graph.constant dense<1.0> : tensor<1x3x3x1xf32> : tensor<1x3x3x1xf32>
  %m = graph.binary sub %x, %k : (tensor<1x3x3x1xf32>, tensor<1xf32>) -> tensor<1x3x3x1xf32>
  %c = graph.conv2d %m, %w {padding = array<i64: 1, 1, 1, 1>} : (tensor<1x3x3x1xf32>, tensor<1x3x3x1xf32>) -> tensor<1x3x3x1xf32>
  %r = graph.unary <relu> %c : tensor<1x3x3x1xf32>
  %a = graph.binary add %r, %k : (tensor<1x3x3x1xf32>, tensor<1xf32>) -> tensor<1x3x3x1xf32>
  %d = graph.conv2d %a, %w {padding = array<i64: 1, 1, 1, 1>} : (tensor<1x3x3x1xf32>, tensor<1x3x3x1xf32>) -> tensor<1x3x3x1xf32>
  %s = graph.unary <relu> %d : tensor<1x3x3x1xf32>
  %p = graph.binary mul %s, %k : (tensor<1x3x3x1xf32>, tensor<1xf32>) -> tensor<1x3x3x1xf32>
  %y = graph.conv2d %p, %w {padding = array<i64: 1, 1, 1, 1>} : (tensor<1x3x3x1xf32>, tensor<1x3x3x1xf32>) -> tensor<1x3x3x1xf32>
  func.return %y, %p : tensor<1x3x3x1xf32>, tensor<1x3x3x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK:       graph.binary sub
// CHECK:       graph.binary add
// CHECK:       graph.binary mul

// -----

// Inputs times factors that are near each other, and times such that are not.
func.func @main(%x: tensor<1x2xf32>, %y: tensor<1x2xf32>) -> (tensor<1x1xf32>, tensor<1x1xf32>) {
  %k = graph.constant dense<[2.0, -4.0]> : tensor<2xf32> : tensor<2xf32>
  %l = graph.constant dense<[2.0, 5.0]> : tensor<2xf32> : tensor<2xf32>
  %w = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %m = graph.binary mul %x, %k : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %a = graph.matmul %m, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %n = graph.binary mul %y, %l : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %b = graph.matmul %n, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %a, %b : tensor<1x1xf32>, tensor<1x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK:       graph.matmul %x
// CHECK:       graph.binary mul %y
