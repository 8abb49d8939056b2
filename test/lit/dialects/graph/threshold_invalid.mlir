// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @scalar(%x: tensor<!quant.uniform<i32:f32, 0.25>>) {
  %t = graph.constant dense<[[-4, 2], [0, 9]]> : tensor<2x2xi32> : tensor<2x2xi32>
  // expected-error@+1 {{an input with channels expected, got a scalar}}
  %0 = graph.threshold %x, %t {offset = array<i64: -1>, step = array<i64: 1>} : (tensor<!quant.uniform<i32:f32, 0.25>>, tensor<2x2xi32>) -> tensor<!quant.uniform<i2:f32, 1.0>>
  func.return
}

// -----

func.func @bytes(%x: tensor<3x2x!quant.uniform<i8:f32, 0.25>>) {
  %t = graph.constant dense<[[-4, 2], [0, 9]]> : tensor<2x2xi32> : tensor<2x2xi32>
  // expected-error@+1 {{an input of f32 or of 32 bits expected, got tensor<3x2x!quant.uniform<i8:f32, 0.25>>}}
  %0 = graph.threshold %x, %t {offset = array<i64: -1>, step = array<i64: 1>} : (tensor<3x2x!quant.uniform<i8:f32, 0.25>>, tensor<2x2xi32>) -> tensor<3x2x!quant.uniform<i2:f32, 1.0>>
  func.return
}

// -----

func.func @computed(%x: tensor<3x2x!quant.uniform<i32:f32, 0.25>>, %t: tensor<2x2xi32>) {
  // expected-error@+1 {{constant thresholds of i32 with rank 2 expected, got tensor<2x2xi32>}}
  %0 = graph.threshold %x, %t {offset = array<i64: -1>, step = array<i64: 1>} : (tensor<3x2x!quant.uniform<i32:f32, 0.25>>, tensor<2x2xi32>) -> tensor<3x2x!quant.uniform<i2:f32, 1.0>>
  func.return
}

// -----

func.func @rank(%x: tensor<3x2x!quant.uniform<i32:f32, 0.25>>) {
  %t = graph.constant dense<[0, 9]> : tensor<2xi32> : tensor<2xi32>
  // expected-error@+1 {{constant thresholds of i32 with rank 2 expected, got tensor<2xi32>}}
  %0 = graph.threshold %x, %t {offset = array<i64: -1>, step = array<i64: 1>} : (tensor<3x2x!quant.uniform<i32:f32, 0.25>>, tensor<2xi32>) -> tensor<3x2x!quant.uniform<i2:f32, 1.0>>
  func.return
}

// -----

func.func @channels(%x: tensor<3x2x!quant.uniform<i32:f32, 0.25>>) {
  %t = graph.constant dense<0> : tensor<1x3xi32> : tensor<1x3xi32>
  // expected-error@+1 {{thresholds of 1 or 2 channels expected, got tensor<1x3xi32>}}
  %0 = graph.threshold %x, %t {offset = array<i64: -1>, step = array<i64: 1>} : (tensor<3x2x!quant.uniform<i32:f32, 0.25>>, tensor<1x3xi32>) -> tensor<3x2x!quant.uniform<i2:f32, 1.0>>
  func.return
}

// -----

func.func @order(%x: tensor<3x2x!quant.uniform<i32:f32, 0.25>>) {
  %t = graph.constant dense<[[-4, 2], [0, 1]]> : tensor<2x2xi32> : tensor<2x2xi32>
  // expected-error@+1 {{the thresholds of a channel must be in ascending order}}
  %0 = graph.threshold %x, %t {offset = array<i64: -1>, step = array<i64: 1>} : (tensor<3x2x!quant.uniform<i32:f32, 0.25>>, tensor<2x2xi32>) -> tensor<3x2x!quant.uniform<i2:f32, 1.0>>
  func.return
}

// -----

func.func @offsets(%x: tensor<3x2x!quant.uniform<i32:f32, 0.25>>) {
  %t = graph.constant dense<[[-4, 2], [0, 9]]> : tensor<2x2xi32> : tensor<2x2xi32>
  // expected-error@+1 {{'offset' must have 1 or 2 integers, got 3}}
  %0 = graph.threshold %x, %t {offset = array<i64: 0, 0, 0>, step = array<i64: 1>} : (tensor<3x2x!quant.uniform<i32:f32, 0.25>>, tensor<2x2xi32>) -> tensor<3x2x!quant.uniform<i2:f32, 1.0>>
  func.return
}

// -----

func.func @plain(%x: tensor<3x2x!quant.uniform<i32:f32, 0.25>>) {
  %t = graph.constant dense<[[-4, 2], [0, 9]]> : tensor<2x2xi32> : tensor<2x2xi32>
  // expected-error@+1 {{a quantized result expected, got tensor<3x2xf32>}}
  %0 = graph.threshold %x, %t {offset = array<i64: -1>, step = array<i64: 1>} : (tensor<3x2x!quant.uniform<i32:f32, 0.25>>, tensor<2x2xi32>) -> tensor<3x2xf32>
  func.return
}

// -----

func.func @range(%x: tensor<3x2x!quant.uniform<i32:f32, 0.25>>) {
  %t = graph.constant dense<[[-4, 2], [0, 9]]> : tensor<2x2xi32> : tensor<2x2xi32>
  // expected-error@+1 {{results must be in [-2, 1], got 2}}
  %0 = graph.threshold %x, %t {offset = array<i64: 0>, step = array<i64: 1>} : (tensor<3x2x!quant.uniform<i32:f32, 0.25>>, tensor<2x2xi32>) -> tensor<3x2x!quant.uniform<i2:f32, 1.0>>
  func.return
}

// -----

func.func @bipolar(%x: tensor<3x2x!quant.uniform<i32:f32, 0.25>>) {
  %t = graph.constant dense<0> : tensor<1x2xi32> : tensor<1x2xi32>
  // expected-error@+1 {{results of i1 must be -1 and 1, got 0}}
  %0 = graph.threshold %x, %t {offset = array<i64: -1>, step = array<i64: 1>} : (tensor<3x2x!quant.uniform<i32:f32, 0.25>>, tensor<1x2xi32>) -> tensor<3x2x!quant.uniform<i1:f32, 1.0>>
  func.return
}
