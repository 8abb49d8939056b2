// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @encoding(%x: tensor<1x3xf32>, %w: tensor<4x3xf32>) {
  // expected-error@+1 {{Expected `dense`, `csr_delta8`, `csr_index16`, or `code`.}}
  %0 = graph.encoded_matmul coo %x, %w : (tensor<1x3xf32>, tensor<4x3xf32>) -> tensor<1x4xf32>
  func.return
}

// -----

func.func @columns(%x: tensor<1x3xf32>, %w: tensor<4x2xf32>) {
  // expected-error@+1 {{input of 3 columns cannot meet weights of 2 columns}}
  %0 = graph.encoded_matmul dense %x, %w : (tensor<1x3xf32>, tensor<4x2xf32>) -> tensor<1x4xf32>
  func.return
}

// -----

func.func @too_wide(%x: tensor<1x65537xf32>, %w: tensor<4x65537xf32>) {
  // expected-error@+1 {{at most 65536 columns have 16-bit indices, got 65537}}
  %0 = graph.encoded_matmul csr_index16 %x, %w : (tensor<1x65537xf32>, tensor<4x65537xf32>) -> tensor<1x4xf32>
  func.return
}

// -----

func.func @zero_point(%x: tensor<1x3xf32>, %w: tensor<4x3x!quant.uniform<i8:f32, 0.5:1>>) {
  // expected-error@+1 {{weights must be f32, or i8 with one scale and no zero point, got !quant.uniform<i8:f32, 0.5:1>}}
  %0 = graph.encoded_matmul dense %x, %w : (tensor<1x3xf32>, tensor<4x3x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<1x4xf32>
  func.return
}

// -----

func.func @bias(%x: tensor<1x3xf32>, %w: tensor<4x3xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{bias must have shape (4,), got (3,)}}
  %0 = graph.encoded_matmul dense %x, %w bias %b : tensor<3xf32> : (tensor<1x3xf32>, tensor<4x3xf32>) -> tensor<1x4xf32>
  func.return
}

// -----

func.func @quantized_input(%x: tensor<1x3x!quant.uniform<i8:f32, 0.5>>, %w: tensor<4x3xf32>) {
  // expected-error@+1 {{input must be float32, got !quant.uniform<i8:f32, 0.5>}}
  %0 = graph.encoded_matmul dense %x, %w : (tensor<1x3x!quant.uniform<i8:f32, 0.5>>, tensor<4x3xf32>) -> tensor<1x4xf32>
  func.return
}
