// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s
// RUN: ceras-opt %s --elide-constants | ceras-opt --elide-constants | filecheck %s --check-prefix=ELIDED

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4x4x2xf32>, %y: tensor<1x8x!quant.uniform<i8:f32, 0.5>>) {
  // Column 1, row 0, channel 1 and column 0, row 1, channel 0; each filter has one weight.
  // CHECK: graph.constant #sparse.coo<counts 0, column 1 row 1 channel 1, counts "0x", places "0x15", values "0x0000803F00000040" : tensor<2x2x2x2xf32>> : tensor<2x2x2x2xf32>
  // ELIDED: graph.constant dense_resource<__elided__> : tensor<2x2x2x2xf32>
  %coo = graph.constant #sparse.coo<counts 0, column 1 row 1 channel 1, counts "0x", places "0x15", values "0x0000803F00000040" : tensor<2x2x2x2xf32>> : tensor<2x2x2x2xf32>
  // CHECK: graph.conv2d
  %0 = graph.conv2d %x, %coo : (tensor<1x4x4x2xf32>, tensor<2x2x2x2xf32>) -> tensor<1x3x3x2xf32>
  // CHECK: #sparse.coo<counts 2, delta 2, counts "0x06", places "0x1F", values "0x000305" : tensor<2x8xi8>>
  %delta = graph.constant #sparse.coo<counts 2, delta 2, counts "0x06", places "0x1F", values "0x000305" : tensor<2x8xi8>> : tensor<2x8x!quant.uniform<i8:f32, 1.0>>
  // CHECK: #sparse.csr<counts 8, delta 8, counts "0x0101", places "0x0502", values "0x8140" : tensor<2x8xi8>>
  %csr = graph.constant #sparse.csr<counts 8, delta 8, counts "0x0101", places "0x0502", values "0x8140" : tensor<2x8xi8>> : tensor<2x8x!quant.uniform<i8:f32, 1.0>>
  // CHECK: #sparse.csr<counts 8, index 16, counts "0x0100", places "0x0500", values "0x81" : tensor<2x8xi8>>
  %index = graph.constant #sparse.csr<counts 8, index 16, counts "0x0100", places "0x0500", values "0x81" : tensor<2x8xi8>> : tensor<2x8x!quant.uniform<i8:f32, 1.0>>
  // CHECK: #sparse.bitmap<counts "0x", places "0x0500", values "0x0102" : tensor<2x8xi8>>
  %bitmap = graph.constant #sparse.bitmap<counts "0x", places "0x0500", values "0x0102" : tensor<2x8xi8>> : tensor<2x8x!quant.uniform<i8:f32, 1.0>>
  // CHECK: #sparse.block<rows 2 columns 1, counts 0, delta 3, counts "0x", places "0x05", values "0x0102" : tensor<2x8xi8>>
  %block = graph.constant #sparse.block<rows 2 columns 1, counts 0, delta 3, counts "0x", places "0x05", values "0x0102" : tensor<2x8xi8>> : tensor<2x8x!quant.uniform<i8:f32, 1.0>>
  func.return
}

// CHECK-LABEL: func.func @mask
func.func @mask(%x: tensor<1x3xf32>) {
  %w = graph.constant dense<[[0.0, 2.0, 0.0]]> : tensor<1x3xf32> : tensor<1x3xf32>
  // A weight that is kept may be zero.
  // CHECK: graph.matmul {{.*}} {sparse.mask = #sparse.mask<2 of [1, 3], "0x06">}
  // ELIDED: sparse.mask = #sparse.mask<2 of [1, 3], "0x06">
  %0 = graph.matmul %x, %w {sparse.mask = #sparse.mask<2 of [1, 3], "0x06">} : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x1xf32>
  func.return
}
