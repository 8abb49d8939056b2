// RUN: ceras-opt %s --verify-diagnostics --split-input-file

// One case for each message of a verifier.
func.func @case0(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{starts must be 2 integers >= 0, got [0]}}
  %0 = graph.slice %x {starts = array<i64: 0>, strides = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return
}

// -----

func.func @case1(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{strides must be 2 integers other than 0, got [0, 1]}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, strides = array<i64: 0, 1>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return
}

// -----

func.func @case2(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{the rank of the result must be 2, got 1}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @case3(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{dimension 1 of extent 6 has no elements 2 to 6}}
  %0 = graph.slice %x {starts = array<i64: 0, 2>, strides = array<i64: 1, 2>} : (tensor<4x6xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

func.func @case4(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{element types must be equal, got f32 -> i32}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4x6xi32>
  func.return
}

// -----

func.func @case5(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{axis must be in [0, 2), got 2}}
  %0 = graph.gather %x {axis = 2 : i64, indices = array<i64: 0>} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  func.return
}

// -----

func.func @case6(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{indices must be in [0, 6), got 6}}
  %0 = graph.gather %x {axis = 1 : i64, indices = array<i64: 6>} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  func.return
}

// -----

func.func @case7(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{result must have shape (4, 1), got (4, 2)}}
  %0 = graph.gather %x {axis = 1 : i64, indices = array<i64: 0>} : (tensor<4x6xf32>) -> tensor<4x2xf32>
  func.return
}

// -----

func.func @case8(%x: tensor<4xf32>) {
  // expected-error@+1 {{Expected `constant`, `reflect`, `edge`, or `wrap`.}}
  %0 = graph.pad mirror %x {low = array<i64: 1>, high = array<i64: 0>, interior = array<i64: 0>, value = 0.0 : f32} : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @case9(%x: tensor<4xf32>) {
  // expected-error@+1 {{low must be 1 integers >= 0, got [-1]}}
  %0 = graph.pad constant %x {low = array<i64: -1>, high = array<i64: 0>, interior = array<i64: 0>, value = 0.0 : f32} : (tensor<4xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @case10(%x: tensor<4xf32>) {
  // expected-error@+1 {{only kind 'constant' can add elements between neighbors}}
  %0 = graph.pad edge %x {low = array<i64: 0>, high = array<i64: 0>, interior = array<i64: 1>, value = 0.0 : f32} : (tensor<4xf32>) -> tensor<7xf32>
  func.return
}

// -----

func.func @case11(%x: tensor<4xf32>) {
  // expected-error@+1 {{kind 'reflect' adds at most 3 elements to an extent of 4, got 4}}
  %0 = graph.pad reflect %x {low = array<i64: 4>, high = array<i64: 0>, interior = array<i64: 0>, value = 0.0 : f32} : (tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @case12(%x: tensor<4xf32>) {
  // expected-error@+1 {{value must be an f32, got 0 : i64}}
  %0 = graph.pad constant %x {low = array<i64: 1>, high = array<i64: 0>, interior = array<i64: 0>, value = 0 : i64} : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @case13(%x: tensor<4xf32>) {
  // expected-error@+1 {{result must have shape (5,), got (6,)}}
  %0 = graph.pad constant %x {low = array<i64: 1>, high = array<i64: 0>, interior = array<i64: 0>, value = 0.0 : f32} : (tensor<4xf32>) -> tensor<6xf32>
  func.return
}

// -----

func.func @case14(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{Expected `sum`, `product`, `max`, or `min`.}}
  %0 = graph.reduce mean %x {axes = array<i64: 1>} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  func.return
}

// -----

func.func @case15(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{axes must be ascending and in [0, 2), got [1, 0]}}
  %0 = graph.reduce sum %x {axes = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<1x1xf32>
  func.return
}

// -----

func.func @case16(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{result must have shape (4, 1), got (4, 2)}}
  %0 = graph.reduce sum %x {axes = array<i64: 1>} : (tensor<4x6xf32>) -> tensor<4x2xf32>
  func.return
}

// -----

func.func @case17(%x: tensor<4x6x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{'sum' would change the scale; dequantize the input}}
  %0 = graph.reduce sum %x {axes = array<i64: 1>} : (tensor<4x6x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x1x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case18(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{kind must be max or min, got sum}}
  %0 = graph.arg sum %x {axis = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x1xi64>
  func.return
}

// -----

func.func @case19(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{axis must be in [0, 2), got 2}}
  %0 = graph.arg max %x {axis = 2 : i64} : (tensor<4x6xf32>) -> tensor<4x1xi64>
  func.return
}

// -----

func.func @case20(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{indices must be i64, got i32}}
  %0 = graph.arg max %x {axis = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x1xi32>
  func.return
}

// -----

func.func @case21(%x: tensor<4xf32>, %y: tensor<4xi32>) {
  // expected-error@+1 {{operands must have equal element types, got f32 and i32}}
  %0 = graph.compare equal %x, %y : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xi1>
  func.return
}

// -----

func.func @case22(%x: tensor<4xf32>) {
  // expected-error@+1 {{Expected `equal`, `less`, or `less_or_equal`.}}
  %0 = graph.compare greater %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  func.return
}

// -----

func.func @case23(%x: tensor<4xf32>, %y: tensor<3xf32>) {
  // expected-error@+1 {{shapes (4,) and (3,) do not broadcast}}
  %0 = graph.compare less %x, %y : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xi1>
  func.return
}

// -----

func.func @case24(%x: tensor<4xf32>) {
  // expected-error@+1 {{the result of a comparison must be i1, got tensor<4xf32>}}
  %0 = graph.compare less %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @case25(%x: tensor<4xf32>) {
  // expected-error@+1 {{the condition must be i1, got tensor<4xf32>}}
  %0 = graph.select %x, %x, %x : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @case26(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xi32>) {
  // expected-error@+1 {{both choices and the result must have equal element types, got f32, i32 and f32}}
  %0 = graph.select %c, %x, %y : (tensor<4xi1>, tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @case27(%c: tensor<3xi1>, %x: tensor<4xf32>) {
  // expected-error@+1 {{shapes (3,) and (4,) and (4,) do not broadcast}}
  %0 = graph.select %c, %x, %x : (tensor<3xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @case28(%x: tensor<4xf32>) {
  // expected-error@+1 {{quantized elements are converted with quantize and dequantize}}
  %0 = graph.cast %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case29(%x: tensor<4xi32>) {
  // expected-error@+1 {{integers must have 1, 8, 16, 32 or 64 bits, got i7}}
  %0 = graph.cast %x : (tensor<4xi32>) -> tensor<4xi7>
  func.return
}

// -----

func.func @case30(%x: tensor<4xi32>) {
  // expected-error@+1 {{elements must be f32 or quantized, got i32}}
  %0 = graph.unary <relu> %x : tensor<4xi32>
  func.return
}

// -----

func.func @case31(%x: tensor<4xf32>) {
  // expected-error@+1 {{'and' requires integers, got tensor<4xf32>}}
  %0 = graph.binary and %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @case32(%x: tensor<4xi32>) {
  // expected-error@+1 {{an activation requires floats; cast the result}}
  %0 = graph.binary add %x, %x {activation = #graph.function<relu>} : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  func.return
}

// -----

func.func @case33(%x: tensor<4xi32>, %y: tensor<4xi64>) {
  // expected-error@+1 {{operands and result must have equal element types, got i32, i64 and i32}}
  %0 = graph.binary add %x, %y : (tensor<4xi32>, tensor<4xi64>) -> tensor<4xi32>
  func.return
}

// -----

func.func @case34(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{kind must be max or min, got sum}}
  %0 = graph.top_k sum %x : (tensor<4x6xf32>) -> tensor<4x2xi64>
  func.return
}

// -----

func.func @case35(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{result must have [4] rows of 1 to 6 indices, got [4, 7]}}
  %0 = graph.top_k max %x : (tensor<4x6xf32>) -> tensor<4x7xi64>
  func.return
}

// -----

func.func @case36(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{indices must be i64, got i32}}
  %0 = graph.top_k max %x : (tensor<4x6xf32>) -> tensor<4x2xi32>
  func.return
}

// -----

func.func @case37(%x: tensor<f32>) {
  // expected-error@+1 {{expected a row, got a scalar}}
  %0 = graph.top_k max %x : (tensor<f32>) -> tensor<1xi64>
  func.return
}
