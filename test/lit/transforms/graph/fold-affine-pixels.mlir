// RUN: ceras-opt %s --fold-affine="rules=pixels" --split-input-file | filecheck %s

func.func @main(%x: tensor<1x2x3x2xf32>) -> tensor<1x2x3x1xf32> {
  %w = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %b = graph.constant dense<[1.0]> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.reshape %x : (tensor<1x2x3x2xf32>) -> tensor<6x2xf32>
  %1 = graph.matmul %0, %w bias %b : tensor<1xf32> {activation = #graph.function<relu>} : (tensor<6x2xf32>, tensor<1x2xf32>) -> tensor<6x1xf32>
  %2 = graph.reshape %1 : (tensor<6x1xf32>) -> tensor<1x2x3x1xf32>
  func.return %2 : tensor<1x2x3x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK:       %[[W:.*]] = graph.constant dense<{{\[\[\[\[}}1.000000e+00, 2.000000e+00]]]]>
// CHECK-NEXT:  graph.conv2d %x, %[[W]] bias %b : tensor<1xf32> {activation = #graph.function<relu>} : (tensor<1x2x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x2x3x1xf32>
// CHECK-NEXT:  func.return

// -----

// Other pixels behind it, one pixel, and a product that others read.
func.func @main(%x: tensor<1x2x3x2xf32>, %p: tensor<1x1x1x2xf32>) -> (tensor<1x3x2x1xf32>, tensor<1x1x1x1xf32>, tensor<1x2x3x1xf32>, tensor<6x1xf32>) {
  %w = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %0 = graph.reshape %x : (tensor<1x2x3x2xf32>) -> tensor<6x2xf32>
  %1 = graph.matmul %0, %w : (tensor<6x2xf32>, tensor<1x2xf32>) -> tensor<6x1xf32>
  %2 = graph.reshape %1 : (tensor<6x1xf32>) -> tensor<1x3x2x1xf32>
  %3 = graph.reshape %p : (tensor<1x1x1x2xf32>) -> tensor<1x2xf32>
  %4 = graph.matmul %3, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %5 = graph.reshape %4 : (tensor<1x1xf32>) -> tensor<1x1x1x1xf32>
  %6 = graph.matmul %0, %w : (tensor<6x2xf32>, tensor<1x2xf32>) -> tensor<6x1xf32>
  %7 = graph.reshape %6 : (tensor<6x1xf32>) -> tensor<1x2x3x1xf32>
  func.return %2, %5, %7, %6 : tensor<1x3x2x1xf32>, tensor<1x1x1x1xf32>, tensor<1x2x3x1xf32>, tensor<6x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NOT:   graph.conv2d
// CHECK:       func.return

// -----

// A function stays behind.
func.func @main(%x: tensor<1x2x3x2xf32>) -> tensor<1x2x3x1xf32> {
  %w = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %0 = graph.reshape %x : (tensor<1x2x3x2xf32>) -> tensor<6x2xf32>
  %1 = graph.matmul %0, %w : (tensor<6x2xf32>, tensor<1x2xf32>) -> tensor<6x1xf32>
  %2 = graph.unary <swish> %1 : tensor<6x1xf32>
  %3 = graph.reshape %2 : (tensor<6x1xf32>) -> tensor<1x2x3x1xf32>
  func.return %3 : tensor<1x2x3x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK:       %[[C:.*]] = graph.conv2d %x
// CHECK-NEXT:  graph.unary <swish> %[[C]] : tensor<1x2x3x1xf32>
// CHECK-NEXT:  func.return
