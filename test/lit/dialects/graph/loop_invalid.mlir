// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @missing(%h: tensor<2xf32>) {
  // expected-error@+1 {{there is no function @body with a body}}
  %0 = graph.loop @body carried(%h : tensor<2xf32>) {steps = 3 : i64, backwards = array<i64>} : tensor<16xi8>
  func.return
}

// -----

func.func @arguments(%h: tensor<2xf32>) {
  // expected-error@+1 {{@body has arguments (tensor<2xf32>), expected (tensor<i64>, tensor<2xf32>)}}
  %0 = graph.loop @body carried(%h : tensor<2xf32>) {steps = 3 : i64, backwards = array<i64>} : tensor<16xi8>
  func.return
}
func.func private @body(%h: tensor<2xf32>) -> tensor<2xf32> {
  func.return %h : tensor<2xf32>
}

// -----

func.func @carried(%h: tensor<2xf32>) {
  // expected-error@+1 {{@body returns tensor<i64> for a carried tensor<2xf32>}}
  %0 = graph.loop @body carried(%h : tensor<2xf32>) {steps = 3 : i64, backwards = array<i64>} : tensor<16xi8>
  func.return
}
func.func private @body(%n: tensor<i64>, %h: tensor<2xf32>) -> tensor<i64> {
  func.return %n : tensor<i64>
}

// -----

func.func @condition(%h: tensor<2xf32>, %go: tensor<i1>) {
  // expected-error@+1 {{@body must first return whether to continue, a tensor<i1>}}
  %0 = graph.loop @body while %go : tensor<i1> carried(%h : tensor<2xf32>) {steps = 3 : i64, backwards = array<i64>} : tensor<16xi8>
  func.return
}
func.func private @body(%n: tensor<i64>, %h: tensor<2xf32>) -> tensor<2xf32> {
  func.return %h : tensor<2xf32>
}

// -----

func.func @stacked(%h: tensor<2xf32>, %go: tensor<i1>) {
  // expected-error@+1 {{a loop that can end early cannot stack values}}
  %0 = graph.loop @body while %go : tensor<i1> carried(%h : tensor<2xf32>) {steps = 3 : i64, backwards = array<i64: 0>} : tensor<48xi8>
  func.return
}
func.func private @body(%n: tensor<i64>, %h: tensor<2xf32>) -> (tensor<i1>, tensor<2xf32>, tensor<2xf32>) {
  %0 = graph.constant dense<false> : tensor<i1> : tensor<i1>
  func.return %0, %h, %h : tensor<i1>, tensor<2xf32>, tensor<2xf32>
}

// -----

func.func @few(%h: tensor<2xf32>) {
  // expected-error@+1 {{@body must return >= 1 values}}
  %0 = graph.loop @body carried(%h : tensor<2xf32>) {steps = 3 : i64, backwards = array<i64>} : tensor<16xi8>
  func.return
}
func.func private @body(%n: tensor<i64>, %h: tensor<2xf32>) {
  func.return
}

// -----

func.func @entries(%h: tensor<2xf32>) {
  // expected-error@+1 {{'backwards' must have 0 entries, got 1}}
  %0 = graph.loop @body carried(%h : tensor<2xf32>) {steps = 3 : i64, backwards = array<i64: 0>} : tensor<16xi8>
  func.return
}
func.func private @body(%n: tensor<i64>, %h: tensor<2xf32>) -> tensor<2xf32> {
  func.return %h : tensor<2xf32>
}

// -----

func.func @size(%h: tensor<2xf32>) {
  // expected-error@+1 {{result}}
  %0 = graph.loop @body carried(%h : tensor<2xf32>) {steps = 3 : i64, backwards = array<i64>} : tensor<8xi8>
  func.return
}
func.func private @body(%n: tensor<i64>, %h: tensor<2xf32>) -> tensor<2xf32> {
  func.return %h : tensor<2xf32>
}

// -----

func.func @recursive(%h: tensor<2xf32>) {
  func.return
}
func.func private @body(%n: tensor<i64>, %h: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{@body must not call itself}}
  %0 = graph.loop @body carried(%h : tensor<2xf32>) {steps = 3 : i64, backwards = array<i64>} : tensor<16xi8>
  %1 = graph.extract %0 {offset = 0 : i64} : (tensor<16xi8>) -> tensor<2xf32>
  func.return %1 : tensor<2xf32>
}

// -----

func.func @steps(%h: tensor<2xf32>) {
  // expected-error@+1 {{steps must be >= 1, got 0}}
  %0 = graph.loop @body carried(%h : tensor<2xf32>) {steps = 0 : i64, backwards = array<i64>} : tensor<16xi8>
  func.return
}
func.func private @body(%n: tensor<i64>, %h: tensor<2xf32>) -> tensor<2xf32> {
  func.return %h : tensor<2xf32>
}

// -----

func.func @bytes(%h: tensor<2xf32>) {
  // expected-error@+1 {{the result must be bytes of i8, got tensor<16xf32>}}
  %0 = graph.loop @body carried(%h : tensor<2xf32>) {steps = 1 : i64, backwards = array<i64>} : tensor<16xf32>
  func.return
}
func.func private @body(%n: tensor<i64>, %h: tensor<2xf32>) -> tensor<2xf32> {
  func.return %h : tensor<2xf32>
}

// -----

func.func @while(%h: tensor<2xf32>, %go: tensor<1xi1>) {
  // expected-error@+1 {{'while' requires a tensor<i1>, got tensor<1xi1>}}
  %0 = graph.loop @body while %go : tensor<1xi1> carried(%h : tensor<2xf32>) {steps = 1 : i64, backwards = array<i64>} : tensor<16xi8>
  func.return
}
func.func private @body(%n: tensor<i64>, %h: tensor<2xf32>) -> (tensor<i1>, tensor<2xf32>) {
  %0 = graph.constant dense<false> : tensor<i1> : tensor<i1>
  func.return %0, %h : tensor<i1>, tensor<2xf32>
}

// -----

func.func @scanned(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{a scanned tensor must have 3 elements along the first dimension, got tensor<2x3xf32>}}
  %0 = graph.loop @body scanned(%x : tensor<2x3xf32>) {steps = 3 : i64, backwards = array<i64: 0, 0>} : tensor<16xi8>
  func.return
}
func.func private @body(%n: tensor<i64>, %x: tensor<3xf32>) -> tensor<f32> {
  %0 = graph.constant dense<0.0> : tensor<f32> : tensor<f32>
  func.return %0 : tensor<f32>
}

// -----

func.func @direction(%x: tensor<3xf32>) {
  // expected-error@+1 {{entries of 'backwards' must be 0 or 1}}
  %0 = graph.loop @body scanned(%x : tensor<3xf32>) {steps = 3 : i64, backwards = array<i64: 2, 0>} : tensor<16xi8>
  func.return
}
func.func private @body(%n: tensor<i64>, %x: tensor<f32>) -> tensor<f32> {
  %0 = graph.constant dense<0.0> : tensor<f32> : tensor<f32>
  func.return %0 : tensor<f32>
}

// -----

func.func @vector(%x: tensor<16xi16>) {
  // expected-error@+1 {{bytes expected, a vector of i8, got tensor<16xi16>}}
  %0 = graph.extract %x {offset = 0 : i64} : (tensor<16xi16>) -> tensor<2xf32>
  func.return
}

// -----

func.func @offset(%x: tensor<32xi8>) {
  // expected-error@+1 {{offset 8 must be a multiple of 16, and end 16 <= 32}}
  %0 = graph.extract %x {offset = 8 : i64} : (tensor<32xi8>) -> tensor<2xf32>
  func.return
}

// -----

func.func @end(%x: tensor<32xi8>) {
  // expected-error@+1 {{offset 16 must be a multiple of 16, and end 36 <= 32}}
  %0 = graph.extract %x {offset = 16 : i64} : (tensor<32xi8>) -> tensor<5xf32>
  func.return
}
