// RUN: ceras-opt %s --choose-encodings | filecheck %s --check-prefixes=CHECK,HOST
// RUN: ceras-opt %s --choose-encodings --choose-encodings | filecheck %s --check-prefixes=CHECK,HOST
// RUN: ceras-opt %s --choose-encodings="board=uno_r4_wifi" | filecheck %s --check-prefixes=CHECK,CORE

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x16x16x16xf32>, %y: tensor<1x8xf32>) -> (tensor<1x16x16x8xf32>, tensor<1x16x16x8xf32>, tensor<1x4xf32>) {
  // Everything is zero: nothing is faster.
  // HOST: graph.constant #sparse.coo<counts 0, delta 2, counts "0x", places "0x", values "0x" : tensor<8x3x3x16xf32>>
  // CORE: graph.constant #sparse.coo<counts 0, delta 2
  %zeros = graph.constant dense<0.0> : tensor<8x3x3x16xf32> : tensor<8x3x3x16xf32>
  // CHECK-NEXT: graph.conv2d
  %0 = graph.conv2d %x, %zeros {padding = array<i64: 1, 1, 1, 1>} : (tensor<1x16x16x16xf32>, tensor<8x3x3x16xf32>) -> tensor<1x16x16x8xf32>
  // Nothing is: there is nothing to leave out.
  // CHECK: graph.constant dense<1.000000e+00> : tensor<8x3x3x16xf32>
  %ones = graph.constant dense<1.0> : tensor<8x3x3x16xf32> : tensor<8x3x3x16xf32>
  %1 = graph.conv2d %x, %ones {padding = array<i64: 1, 1, 1, 1>} : (tensor<1x16x16x16xf32>, tensor<8x3x3x16xf32>) -> tensor<1x16x16x8xf32>
  // One position: nothing lies side by side.
  // CHECK: graph.constant dense<0.000000e+00> : tensor<4x8xf32>
  %row = graph.constant dense<0.0> : tensor<4x8xf32> : tensor<4x8xf32>
  %2 = graph.matmul %y, %row : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  func.return %0, %1, %2 : tensor<1x16x16x8xf32>, tensor<1x16x16x8xf32>, tensor<1x4xf32>
}
