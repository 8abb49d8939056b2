// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @width(%x: tensor<5x2x9xf32>, %w: tensor<9x3xf32>, %h: tensor<2x3xf32>) {
  // expected-error@+1 {{'rnn' requires an input of 1 times 3 columns, got 9}}
  %0 = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<tanh>]} : (tensor<5x2x9xf32>, tensor<9x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  func.return
}

// -----

func.func @cell(%x: tensor<5x2x12xf32>, %w: tensor<12x3xf32>, %h: tensor<2x3xf32>) {
  // expected-error@+1 {{only 'lstm' has a cell state, and requires it}}
  %0 = graph.recurrence lstm %x, %w, %h {functions = [#graph.function<tanh>]} : (tensor<5x2x12xf32>, tensor<12x3xf32>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  func.return
}

// -----

func.func @functions(%x: tensor<5x2x9xf32>, %w: tensor<9x3xf32>, %h: tensor<2x3xf32>) {
  // expected-error@+1 {{'gru' has 2 functions, got 1}}
  %0 = graph.recurrence gru %x, %w, %h {functions = [#graph.function<tanh>]} : (tensor<5x2x9xf32>, tensor<9x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  func.return
}

// -----

func.func @result(%x: tensor<5x2x3xf32>, %w: tensor<3x3xf32>, %h: tensor<2x3xf32>) {
  // expected-error@+1 {{result must have shape (5, 2, 3), got (6, 2, 3)}}
  %0 = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<tanh>]} : (tensor<5x2x3xf32>, tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  func.return
}

// -----

func.func @exponents(%x: tensor<5x2x3xf32>, %h: tensor<2x3xf32>) {
  %w = graph.constant dense<1> : tensor<3x3xi8> : tensor<3x3xi8>
  // expected-error@+1 {{weights of i8 require exponents of state and weights, or scales and a zero point; float weights have neither}}
  %0 = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<tanh>]} : (tensor<5x2x3xf32>, tensor<3x3xi8>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  func.return
}

// -----

func.func @rows(%x: tensor<5x2x3xf32>, %h: tensor<2x3xf32>) {
  %w = graph.constant dense<1> : tensor<3x3xi8> : tensor<3x3xi8>
  // expected-error@+1 {{expected 3 exponents of weights, got 1}}
  %0 = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<tanh>], state_exponent = -14 : i64, weight_exponents = array<i64: 0>} : (tensor<5x2x3xf32>, tensor<3x3xi8>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  func.return
}

// -----

func.func @both(%x: tensor<5x2x12xf32>, %h: tensor<2x3xf32>) {
  %w = graph.constant dense<1> : tensor<12x3xi8> : tensor<12x3xi8>
  // expected-error@+1 {{weights of i8 require exponents of state and weights, or scales and a zero point; float weights have neither}}
  %0 = graph.recurrence lstm %x, %w, %h cell %h : tensor<2x3xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>], state_exponent = -14 : i64, weight_exponents = array<i64: 0>, weight_scales = array<f32: 1.0>, weight_zero_point = 0 : i64} : (tensor<5x2x12xf32>, tensor<12x3xi8>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  func.return
}

// -----

func.func @half(%x: tensor<5x2x12xf32>, %h: tensor<2x3xf32>) {
  %w = graph.constant dense<1> : tensor<12x3xi8> : tensor<12x3xi8>
  // expected-error@+1 {{weights of i8 require exponents of state and weights, or scales and a zero point; float weights have neither}}
  %0 = graph.recurrence lstm %x, %w, %h cell %h : tensor<2x3xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>], weight_scales = array<f32: 1.0>} : (tensor<5x2x12xf32>, tensor<12x3xi8>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  func.return
}

// -----

func.func @floats(%x: tensor<5x2x12xf32>, %w: tensor<12x3xf32>, %h: tensor<2x3xf32>) {
  // expected-error@+1 {{weights of i8 require exponents of state and weights, or scales and a zero point; float weights have neither}}
  %0 = graph.recurrence lstm %x, %w, %h cell %h : tensor<2x3xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>], weight_scales = array<f32: 1.0>, weight_zero_point = 0 : i64} : (tensor<5x2x12xf32>, tensor<12x3xf32>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  func.return
}

// -----

func.func @computed(%x: tensor<5x2x12xf32>, %w: tensor<12x3xi8>, %h: tensor<2x3xf32>) {
  // expected-error@+1 {{weights of i8 must be constant}}
  %0 = graph.recurrence lstm %x, %w, %h cell %h : tensor<2x3xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>], weight_scales = array<f32: 1.0>, weight_zero_point = 0 : i64} : (tensor<5x2x12xf32>, tensor<12x3xi8>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  func.return
}

// -----

func.func @cell_without_scales(%x: tensor<5x2x3xf32>, %h: tensor<2x3xf32>) {
  %w = graph.constant dense<1> : tensor<3x3xi8> : tensor<3x3xi8>
  // expected-error@+1 {{only 'lstm' can have scales, got 'rnn'}}
  %0 = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<tanh>], weight_scales = array<f32: 1.0>, weight_zero_point = 0 : i64} : (tensor<5x2x3xf32>, tensor<3x3xi8>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  func.return
}

// -----

func.func @count_of_scales(%x: tensor<5x2x12xf32>, %h: tensor<2x3xf32>) {
  %w = graph.constant dense<1> : tensor<12x3xi8> : tensor<12x3xi8>
  // expected-error@+1 {{expected 1 or 12 scales, got 2}}
  %0 = graph.recurrence lstm %x, %w, %h cell %h : tensor<2x3xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>], weight_scales = array<f32: 1.0, 2.0>, weight_zero_point = 0 : i64} : (tensor<5x2x12xf32>, tensor<12x3xi8>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  func.return
}

// -----

func.func @negative_scale(%x: tensor<5x2x12xf32>, %h: tensor<2x3xf32>) {
  %w = graph.constant dense<1> : tensor<12x3xi8> : tensor<12x3xi8>
  // expected-error@+1 {{scales must be finite and not negative}}
  %0 = graph.recurrence lstm %x, %w, %h cell %h : tensor<2x3xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>], weight_scales = array<f32: -1.0>, weight_zero_point = 0 : i64} : (tensor<5x2x12xf32>, tensor<12x3xi8>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  func.return
}

// -----

func.func @zero_point(%x: tensor<5x2x12xf32>, %h: tensor<2x3xf32>) {
  %w = graph.constant dense<1> : tensor<12x3xi8> : tensor<12x3xi8>
  // expected-error@+1 {{the zero point must be an i8, got 128}}
  %0 = graph.recurrence lstm %x, %w, %h cell %h : tensor<2x3xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>], weight_scales = array<f32: 1.0>, weight_zero_point = 128 : i64} : (tensor<5x2x12xf32>, tensor<12x3xi8>, tensor<2x3xf32>) -> tensor<6x2x3xf32>
  func.return
}
