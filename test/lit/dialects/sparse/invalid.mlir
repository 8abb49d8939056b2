// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @element() {
  // expected-error@+1 {{elements must be f32, i8, i16 or i32, got i64}}
  %0 = graph.constant #sparse.bitmap<counts "0x", places "0x00", values "0x" : tensor<1x4xi64>> : tensor<1x4xi64>
  func.return
}

// -----

func.func @type() {
  // expected-error@+1 {{value of type tensor<1x4xi8> cannot be a constant of type tensor<1x5xi8>}}
  %0 = graph.constant #sparse.bitmap<counts "0x", places "0x00", values "0x" : tensor<1x4xi8>> : tensor<1x5xi8>
  func.return
}

// -----

func.func @digits() {
  // expected-error@+1 {{bytes expected as '0x' and pairs of hexadecimal digits, got '0x1'}}
  %0 = graph.constant #sparse.bitmap<counts "0x", places "0x1", values "0x" : tensor<1x4xi8>> : tensor<1x4xi8>
  func.return
}

// -----

func.func @bitmap() {
  // expected-error@+1 {{2 bits are set, but 1 values are stored}}
  %0 = graph.constant #sparse.bitmap<counts "0x", places "0x05", values "0x01" : tensor<1x4xi8>> : tensor<1x4xi8>
  func.return
}

// -----

func.func @spare() {
  // expected-error@+1 {{bits after the last of places must be zero}}
  %0 = graph.constant #sparse.bitmap<counts "0x", places "0x10", values "0x01" : tensor<1x4xi8>> : tensor<1x4xi8>
  func.return
}

// -----

func.func @counts() {
  // expected-error@+1 {{counts add up to 2, but 1 values are stored}}
  %0 = graph.constant #sparse.csr<counts 8, delta 8, counts "0x0101", places "0x05", values "0x81" : tensor<2x8xi8>> : tensor<2x8xi8>
  func.return
}

// -----

func.func @places() {
  // expected-error@+1 {{2 places of 8 bits take 2 bytes, got 1}}
  %0 = graph.constant #sparse.csr<counts 8, delta 8, counts "0x0101", places "0x05", values "0x8181" : tensor<2x8xi8>> : tensor<2x8xi8>
  func.return
}

// -----

func.func @beyond() {
  // expected-error@+1 {{a place must be below 8, the size of a filter}}
  %0 = graph.constant #sparse.csr<counts 8, delta 8, counts "0x0200", places "0x0503", values "0x8181" : tensor<2x8xi8>> : tensor<2x8xi8>
  func.return
}

// -----

func.func @ascend() {
  // expected-error@+1 {{places of a filter must be ascending}}
  %0 = graph.constant #sparse.csr<counts 8, index 16, counts "0x0200", places "0x05000500", values "0x8181" : tensor<2x8xi8>> : tensor<2x8xi8>
  func.return
}

// -----

func.func @whole_bytes() {
  // expected-error@+1 {{places must be 'delta 8' or 'index 16'}}
  %0 = graph.constant #sparse.csr<counts 8, delta 4, counts "0x0100", places "0x05", values "0x81" : tensor<2x8xi8>> : tensor<2x8xi8>
  func.return
}

// -----

func.func @too_wide() {
  // expected-error@+1 {{at most 65536 columns have 16-bit indices, got 65537}}
  %0 = graph.constant #sparse.csr<counts 8, index 16, counts "0x00", places "0x", values "0x" : tensor<1x65537xi8>> : tensor<1x65537xi8>
  func.return
}

// -----

func.func @fields() {
  // expected-error@+1 {{a channel of 2 takes 1 bits, got 2}}
  %0 = graph.constant #sparse.coo<counts 0, column 1 row 1 channel 2, counts "0x", places "0x", values "0x" : tensor<2x2x2x2xi8>> : tensor<2x2x2x2xi8>
  func.return
}

// -----

func.func @column() {
  // expected-error@+1 {{a column must be below 3, the width of a window}}
  %0 = graph.constant #sparse.coo<counts 0, column 2 row 1 channel 0, counts "0x", places "0x03", values "0x01" : tensor<1x2x3x1xi8>> : tensor<1x2x3x1xi8>
  func.return
}

// -----

func.func @block() {
  // expected-error@+1 {{blocks of 3x1 do not divide 2 filters of 8 products}}
  %0 = graph.constant #sparse.block<rows 3 columns 1, counts 0, delta 3, counts "0x", places "0x", values "0x" : tensor<2x8xi8>> : tensor<2x8xi8>
  func.return
}

// -----

func.func @lost(%x: tensor<1x3xf32>) {
  %w = graph.constant dense<[[1.0, 2.0, 0.0]]> : tensor<1x3xf32> : tensor<1x3xf32>
  // expected-error@+1 {{sparse.mask leaves out 1 weights that are not zero, the first at (0, 0): prune again, or remove the mask}}
  %0 = graph.matmul %x, %w {sparse.mask = #sparse.mask<2 of [1, 3], "0x06">} : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x1xf32>
  func.return
}

// -----

func.func @mask_shape(%x: tensor<1x3xf32>) {
  %w = graph.constant dense<[[0.0, 2.0, 0.0]]> : tensor<1x3xf32> : tensor<1x3xf32>
  // expected-error@+1 {{sparse.mask of shape (3, 1) does not fit weights of shape (1, 3)}}
  %0 = graph.matmul %x, %w {sparse.mask = #sparse.mask<2 of [3, 1], "0x06">} : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x1xf32>
  func.return
}

// -----

func.func @mask_count(%x: tensor<1x3xf32>) {
  // expected-error@+1 {{2 bits are set, but 1 weights are kept}}
  %0 = graph.reshape %x {sparse.mask = #sparse.mask<1 of [1, 3], "0x06">} : (tensor<1x3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @mask_operation(%x: tensor<1x3xf32>) {
  // expected-error@+1 {{sparse.mask requires a convolution or matrix product with constant weights}}
  %0 = graph.reshape %x {sparse.mask = #sparse.mask<2 of [1, 3], "0x06">} : (tensor<1x3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @mixed(%x: tensor<1x3xf32>, %w: tensor<4x3x!quant.uniform<i8:f32, 0.5:1>>) {
  // expected-error@+1 {{weights of float sums must be f32, or i8 with a single scale and no zero point, got !quant.uniform<i8:f32, 0.5:1>}}
  %0 = graph.matmul %x, %w {ordered} : (tensor<1x3xf32>, tensor<4x3x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<1x4xf32>
  func.return
}

// -----

func.func @unordered(%x: tensor<1x3xf32>, %w: tensor<4x3x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{operands and result must be all float or all quantized, except weights of 'ordered' sums}}
  %0 = graph.matmul %x, %w : (tensor<1x3xf32>, tensor<4x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4xf32>
  func.return
}
