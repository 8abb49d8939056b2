// RUN: ceras-opt %s --verify-diagnostics --split-input-file

// One case for each message of a verifier.
func.func @case0(%x: tensor<1x8x8x4xf32>, %w: tensor<6x3x3x2xf32>) {
  // expected-error@+1 {{weights of 2 channels in 1 groups require 2 input channels, got 4}}
  %0 = graph.conv2d %x, %w : (tensor<1x8x8x4xf32>, tensor<6x3x3x2xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @case1(%x: tensor<1x8x8x4xf32>, %w: tensor<6x3x3x2xf32>) {
  // expected-error@+1 {{groups must divide 4 input and 6 output channels, got 3}}
  %0 = graph.conv2d %x, %w {groups = 3 : i64} : (tensor<1x8x8x4xf32>, tensor<6x3x3x2xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @case2(%x: tensor<1x8x8x4xf32>, %w: tensor<6x3x3x4xf32>) {
  // expected-error@+1 {{strides must be 2 integers >= 1, got [0, 1]}}
  %0 = graph.conv2d %x, %w {strides = array<i64: 0, 1>} : (tensor<1x8x8x4xf32>, tensor<6x3x3x4xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @case3(%x: tensor<1x8x8x4xf32>, %w: tensor<6x3x3x4xf32>) {
  // expected-error@+1 {{padding must be 4 integers >= 0, got [-1, 0, 0, 0]}}
  %0 = graph.conv2d %x, %w {padding = array<i64: -1, 0, 0, 0>} : (tensor<1x8x8x4xf32>, tensor<6x3x3x4xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @case4(%x: tensor<1x8x8x4xf32>, %w: tensor<6x9x9x4xf32>) {
  // expected-error@+1 {{a 9x9 window does not fit the padded input of 8x8}}
  %0 = graph.conv2d %x, %w : (tensor<1x8x8x4xf32>, tensor<6x9x9x4xf32>) -> tensor<1x1x1x6xf32>
  func.return
}

// -----

func.func @case5(%x: tensor<1x8x8x4xf32>, %w: tensor<6x3x3x4xf32>) {
  // expected-error@+1 {{result must have shape (1, 6, 6, 6), got (1, 8, 8, 6)}}
  %0 = graph.conv2d %x, %w : (tensor<1x8x8x4xf32>, tensor<6x3x3x4xf32>) -> tensor<1x8x8x6xf32>
  func.return
}

// -----

func.func @case6(%x: tensor<8x4xf32>, %w: tensor<6x3x3x4xf32>) {
  // expected-error@+1 {{input must have rank 4, got shape (8, 4)}}
  %0 = graph.conv2d %x, %w : (tensor<8x4xf32>, tensor<6x3x3x4xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @case7(%x: tensor<1x4xf32>, %w: tensor<2x5xf32>) {
  // expected-error@+1 {{input of 4 columns does not match weights of 5 columns}}
  %0 = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<2x5xf32>) -> tensor<1x2xf32>
  func.return
}

// -----

func.func @case8(%x: tensor<1x4xf32>, %w: tensor<2x4xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{bias must have shape (2,), got (3,)}}
  %0 = graph.matmul %x, %w bias %b : tensor<3xf32> : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  func.return
}

// -----

func.func @case9(%x: tensor<1x4xf32>, %w: tensor<2x4xf32>, %r: tensor<1x1xf32>) {
  // expected-error@+1 {{residual must have shape (1, 2), got (1, 1)}}
  %0 = graph.matmul %x, %w residual %r : tensor<1x1xf32> : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  func.return
}

// -----

func.func @case10(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{bias must be stored in 32 bits, got i8}}
  %0 = graph.matmul %x, %w bias %b : tensor<2x!quant.uniform<i8:f32, 0.5>> {requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case11(%x: tensor<1x4xf32>, %w: tensor<2x4xf32>) {
  // expected-error@+1 {{'residual_shift' needs a quantized residual}}
  %0 = graph.matmul %x, %w {residual_shift = 1 : i64} : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  func.return
}

// -----

func.func @case11b(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>, %r: tensor<1x2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{'residual_shift' has 3 shifts, expected 2}}
  %0 = graph.matmul %x, %w residual %r : tensor<1x2x!quant.uniform<i8:f32, 0.5>> {residual_shift = array<i64: 1, 2, 3>, requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case12(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>, %r: tensor<1x2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{residual_shift must be in [0, 23], got 24}}
  %0 = graph.matmul %x, %w residual %r : tensor<1x2x!quant.uniform<i8:f32, 0.5>> {residual_shift = 24 : i64, requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case13(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{a quantized operation clamps in 'requant'; use 'graph.lookup' for other functions}}
  %0 = graph.matmul %x, %w {activation = #graph.function<relu>, requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case14(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4xf32>) {
  // expected-error@+1 {{operands and result must be all float or all quantized}}
  %0 = graph.matmul %x, %w {requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case15(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{a quantized operation needs 'requant', with its shift, rounding and clamp range}}
  %0 = graph.matmul %x, %w : (tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case16(%x: tensor<1x4xf32>, %w: tensor<2x4xf32>) {
  // expected-error@+1 {{a float operation cannot have 'requant'}}
  %0 = graph.matmul %x, %w {requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  func.return
}

// -----

func.func @case17(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{clamp range [-129, 127] exceeds i8}}
  %0 = graph.matmul %x, %w {requant = #graph.requant<shift = 3, rounding = half_up, low = -129, high = 127>} : (tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case18(%x: tensor<1x4xf64>) {
  // expected-error@+1 {{elements must be f32 or quantized, got f64}}
  %0 = graph.unary <relu> %x : tensor<1x4xf64>
  func.return
}

// -----

func.func @case19(%x: tensor<?x4xf32>) {
  // expected-error@+1 {{static, non-empty shape expected, got tensor<?x4xf32>}}
  %0 = graph.unary <relu> %x : tensor<?x4xf32>
  func.return
}

// -----

func.func @case20(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{a quantized function must be 'graph.lookup'}}
  %0 = graph.unary <relu> %x : tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case21(%x: tensor<4xf32>) {
  // expected-error@+1 {{Expected `add`, `sub`, `mul`, `div`, `min`, `max`, `pow`, `and`, `or`, or `xor`.}}
  %0 = graph.binary mod %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @case22(%x: tensor<4xf32>, %y: tensor<3xf32>) {
  // expected-error@+1 {{shapes (4,) and (3,) do not broadcast}}
  %0 = graph.binary add %x, %y : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @case23(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{operand shifts must be in [0, 22], got [23, 0]}}
  %0 = graph.binary add %x, %x {lhs_shift = 23 : i64, requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case24(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{only quantized 'add' and 'sub' can shift operands}}
  %0 = graph.binary mul %x, %x {lhs_shift = 1 : i64, requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case25(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{a quantized operation clamps in 'requant'; use 'graph.lookup' for other functions}}
  %0 = graph.binary mul %x, %x {activation = #graph.function<relu>, requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case26(%x: tensor<4xf32>) {
  // expected-error@+1 {{int8 or int16 elements expected, got tensor<4xf32>}}
  %0 = graph.lookup %x, dense<0> : tensor<256xi8> : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @case27(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{a table for int8 has 256 entries, got tensor<255xi8>}}
  %0 = graph.lookup %x, dense<0> : tensor<255xi8> : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case28(%x: tensor<4xf32>) {
  // expected-error@+1 {{axis must be in [0, 1), got 1}}
  %0 = graph.softmax %x {axis = 1 : i64} : tensor<4xf32>
  func.return
}

// -----

func.func @case29(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{softmax requires float; use integer_softmax for integers}}
  %0 = graph.softmax %x {axis = 0 : i64} : tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case30(%x: tensor<1x4x4x1xf32>) {
  // expected-error@+1 {{Expected `max`, or `average`.}}
  %0 = graph.pool2d min %x {kernel = array<i64: 2, 2>} : (tensor<1x4x4x1xf32>) -> tensor<1x3x3x1xf32>
  func.return
}

// -----

// The interpreter had no multiplier for a window of one element.
func.func @partial_window(%x: tensor<1x4x4x1x!quant.uniform<i8:f32, 1.0>>) -> tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>> {
  // expected-error@+1 {{the multiplier of a single-element window must be below 2^31, got 2147489649}}
  %0 = graph.pool2d average %x {kernel = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>, requant = #graph.requant<multiplier = 238609961, shift = 30, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x4x1x!quant.uniform<i8:f32, 1.0>>) -> tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>
  func.return %0 : tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

func.func @case31(%x: tensor<1x4x4x1xf32>) {
  // expected-error@+1 {{padding [2, 0, 0, 0] must be smaller than the window of [2, 2]}}
  %0 = graph.pool2d max %x {kernel = array<i64: 2, 2>, padding = array<i64: 2, 0, 0, 0>} : (tensor<1x4x4x1xf32>) -> tensor<1x5x3x1xf32>
  func.return
}

// -----

func.func @case32(%x: tensor<1x4x4x1xf32>) {
  // expected-error@+1 {{a window of [5, 5] does not fit the padded input of 4x4}}
  %0 = graph.pool2d max %x {kernel = array<i64: 5, 5>} : (tensor<1x4x4x1xf32>) -> tensor<1x1x1x1xf32>
  func.return
}

// -----

func.func @case33(%x: tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{max pooling cannot have 'requant': it keeps the scale}}
  %0 = graph.pool2d max %x {kernel = array<i64: 2, 2>, requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x3x3x1x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case34(%x: tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{max pooling must keep the element type of the input, got tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>> -> tensor<1x3x3x1x!quant.uniform<i8:f32, 0.25>>}}
  %0 = graph.pool2d max %x {kernel = array<i64: 2, 2>} : (tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x3x3x1x!quant.uniform<i8:f32, 0.25>>
  func.return
}

// -----

func.func @case35(%x: tensor<4xf32>) {
  // expected-error@+1 {{shape (4,) has 4 elements, (5,) has 5}}
  %0 = graph.reshape %x : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @case36(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{element types must be equal, got !quant.uniform<i8:f32, 0.5> -> f32}}
  %0 = graph.reshape %x : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @case37(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{a permutation of 2 dimensions expected, got [0, 0]}}
  %0 = graph.transpose %x {permutation = array<i64: 0, 0>} : (tensor<4x3xf32>) -> tensor<4x4xf32>
  func.return
}

// -----

func.func @case38(%x: tensor<4xf32>) {
  // expected-error@+1 {{axis must be in [0, 1), got 1}}
  %0 = graph.concat %x, %x {axis = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @case39(%x: tensor<4x2xf32>) {
  // expected-error@+1 {{operand of shape (4, 2) does not fit (8, 3) along axis 0}}
  %0 = graph.concat %x, %x {axis = 0 : i64} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<8x3xf32>
  func.return
}

// -----

func.func @case40(%x: tensor<4xf32>) {
  // expected-error@+1 {{extents along axis 0 add to 8, not 9}}
  %0 = graph.concat %x, %x {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<9xf32>
  func.return
}

// -----

func.func @case41(%x: tensor<1x2x2x1xf32>) {
  // expected-error@+1 {{Expected `half_pixel`, `pytorch_half_pixel`, `align_corners`, `asymmetric`, or `half_pixel_symmetric`.}}
  %0 = graph.resize nearest %x coordinates tf rounding floor {scales = array<f64: 2.0, 2.0>} : (tensor<1x2x2x1xf32>) -> tensor<1x4x4x1xf32>
  func.return
}

// -----

func.func @resize_rounding(%x: tensor<1x2x2x1xf32>) {
  // expected-error@+1 {{Expected `round_prefer_floor`, `round_prefer_ceil`, `floor`, or `ceil`.}}
  %0 = graph.resize nearest %x coordinates asymmetric rounding up {scales = array<f64: 2.0, 2.0>} : (tensor<1x2x2x1xf32>) -> tensor<1x4x4x1xf32>
  func.return
}

// -----

func.func @resize_kind(%x: tensor<1x2x2x1xf32>) {
  // expected-error@+1 {{Expected `nearest`, or `linear`.}}
  %0 = graph.resize cubic %x coordinates asymmetric rounding floor {scales = array<f64: 2.0, 2.0>} : (tensor<1x2x2x1xf32>) -> tensor<1x4x4x1xf32>
  func.return
}

// -----

func.func @case42(%x: tensor<1x2x2x1xf32>) {
  // expected-error@+1 {{two positive scales expected}}
  %0 = graph.resize nearest %x coordinates asymmetric rounding floor {scales = array<f64: 0.0, 2.0>} : (tensor<1x2x2x1xf32>) -> tensor<1x4x4x1xf32>
  func.return
}

// -----

func.func @case43(%x: tensor<1x2x2x1xf32>) {
  // expected-error@+1 {{only height and width can change, got (1, 2, 2, 1) -> (1, 4, 4, 2)}}
  %0 = graph.resize nearest %x coordinates asymmetric rounding floor {scales = array<f64: 2.0, 2.0>} : (tensor<1x2x2x1xf32>) -> tensor<1x4x4x2xf32>
  func.return
}

// -----

func.func @case44(%x: tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{linear resizing of integers has coordinates half_pixel, align_corners, asymmetric, got pytorch_half_pixel}}
  %0 = graph.resize linear %x coordinates pytorch_half_pixel rounding floor {scales = array<f64: 2.0, 2.0>} : (tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case45() {
  // expected-error@+1 {{value must be stored as i8, got f32}}
  %0 = graph.constant dense<1.0> : tensor<4xf32> : tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case46() {
  // expected-error@+1 {{value of type tensor<3xf32> cannot be a constant of type tensor<4xf32>}}
  %0 = graph.constant dense<1.0> : tensor<3xf32> : tensor<4xf32>
  func.return
}

// -----

func.func @case47(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{float to quantized expected}}
  %0 = graph.quantize %x : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case47_scaled(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{float to quantized expected}}
  %0 = graph.scaled_quantize %x {factor = 2.0 : f32} : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case47_factor(%x: tensor<4xf32>) {
  // expected-error@+1 {{'factor' must be finite, got inf}}
  %0 = graph.scaled_quantize %x {factor = 0x7F800000 : f32} : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case47_axis(%x: tensor<1x2xf32>) {
  // expected-error@+1 {{expected a single scale, got !quant.uniform<i8:f32:1, {0.5, 0.25}>}}
  %0 = graph.scaled_quantize %x {factor = 2.0 : f32} : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
  func.return
}

// -----

func.func @case48(%x: tensor<4xf32>) {
  // expected-error@+1 {{quantized to float expected}}
  %0 = graph.dequantize %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @case49(%x: tensor<4xf32>) {
  // expected-error@+1 {{quantized input expected, got tensor<4xf32>}}
  %0 = graph.requantize %x {requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case50(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{'ordered' requires floats; integer sums are exact in any order}}
  %0 = graph.matmul %x, %w {ordered, requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @signed_pixels(%x: tensor<4xi8>) {
  // expected-error@+1 {{int8 or int16 elements expected, got tensor<4xi8>}}
  %0 = graph.lookup %x, dense<0> : tensor<256xi8> : (tensor<4xi8>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @table_for_pixels(%x: tensor<4xui8>) {
  // expected-error@+1 {{a table for ui8 has 256 entries, got tensor<512xi8>}}
  %0 = graph.lookup %x, dense<0> : tensor<512xi8> : (tensor<4xui8>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @table_too_long(%x: tensor<4x!quant.uniform<i16:f32, 0.5>>) {
  // expected-error@+1 {{a table for int16 has a power of two from 256 to 65536 entries, got tensor<131072xi8>}}
  %0 = graph.lookup %x, dense<0> : tensor<131072xi8> : (tensor<4x!quant.uniform<i16:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @made_pixels(%x: tensor<4xui8>) {
  // expected-error@+1 {{int8 or int16 elements expected, got tensor<4xui8>}}
  %0 = graph.lookup %x, dense<0> : tensor<256xi8> : (tensor<4xui8>) -> tensor<4xui8>
  func.return
}

// -----

func.func @rounded_up(%x: tensor<4xf32>) {
  // expected-error@+1 {{'rounding' must be half_away or absent, got half_up}}
  %0 = graph.quantize %x {rounding = #graph<rounding half_up>} : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @resized_sums(%x: tensor<1x2x2x1x!quant.uniform<i32:f32, 0.5>>) {
  // expected-error@+1 {{linear resizing of integers requires 8 or 16 bits and a single scale, got !quant.uniform<i32:f32, 0.5>}}
  %0 = graph.resize linear %x coordinates asymmetric rounding floor {scales = array<f64: 2.0, 2.0>} : (tensor<1x2x2x1x!quant.uniform<i32:f32, 0.5>>) -> tensor<1x4x4x1x!quant.uniform<i32:f32, 0.5>>
  func.return
}

// -----

func.func @case51() {
  // expected-error@+1 {{value must be in [-8, 7], got 100}}
  %0 = graph.constant dense<"0x0764"> : tensor<2xi4> : tensor<2x!quant.uniform<i4:f32, 0.5>>
  func.return
}
