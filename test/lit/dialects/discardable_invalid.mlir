// RUN: ceras-opt %s --split-input-file --verify-diagnostics

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{graph.precision must be one of "i2", "i3", "i4", "i5", "i6", "i7", "i8", "i16", "f32", "f32,i16", "i16,f32", got "int16"}}
  %a = graph.unary <tanh> %x {graph.precision = "int16"} : tensor<4xf32>
  // expected-error@+1 {{graph.form must be one of "table", "table16", "shifts", "float", got "tabel16"}}
  %b = graph.unary <tanh> %a {graph.form = "tabel16"} : tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

// expected-error@+1 {{graph.exponent must be an integer in [-1000, 1000], got "one"}}
func.func @main(%x: tensor<4xf32> {graph.exponent = "one"}) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{graph.range must be array<f32: MIN, MAX>, got array<f32: 1.000000e+00, 0.000000e+00>}}
func.func @main(%x: tensor<4xf32> {graph.range = array<f32: 1.0, 0.0>}) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{mem.block must be #mem.block, or a list of these for several results, got 3 : i64}}
func.func @main(%x: tensor<4xf32> {mem.block = 3 : i64}) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{graph.name must be text, got 1 : i64}}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {graph.name = 1 : i64}) {
  func.return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{graph.requantizations must be counts before and after, got {before = 1 : i64}}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {graph.requantizations = {before = 1 : i64}} {
  func.return %x : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{unknown attribute 'graph.precison'; did you mean 'graph.precision'?}}
  %a = graph.unary <tanh> %x {graph.precison = "i16"} : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// expected-error@+1 {{unknown attribute 'mem.sizes'}}
func.func @main(%x: tensor<4xf32> {mem.sizes = 3 : i64}) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{state 'h': there is no result 'hm'}}
func.func @main(%h: tensor<4xf32> {graph.name = "h", graph.state = "hm"}) -> (tensor<4xf32> {graph.name = "hn"}) {
  func.return %h : tensor<4xf32>
}

// -----

// expected-error@+1 {{state 'h' is tensor<4xf32>, but the result 'hn' is tensor<2x2xf32>}}
func.func @main(%h: tensor<4xf32> {graph.name = "h", graph.state = "hn"}) -> (tensor<2x2xf32> {graph.name = "hn"}) {
  %0 = graph.reshape %h : (tensor<4xf32>) -> tensor<2x2xf32>
  func.return %0 : tensor<2x2xf32>
}

// -----

// expected-error@+1 {{state 'g': the result 'hn' already belongs to a state; add an output with an Identity of it to the model}}
func.func @main(%h: tensor<4xf32> {graph.name = "h", graph.state = "hn"}, %g: tensor<4xf32> {graph.name = "g", graph.state = "hn"}) -> (tensor<4xf32> {graph.name = "hn"}) {
  func.return %h : tensor<4xf32>
}
