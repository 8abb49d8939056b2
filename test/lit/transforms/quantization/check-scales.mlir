// RUN: ceras-opt %s --check-scales --split-input-file --verify-diagnostics

!q1 = !quant.uniform<i8:f32, 1.0>
!q2 = !quant.uniform<i8:f32, 2.0>
!q4 = !quant.uniform<i8:f32, 4.0>
!q8 = !quant.uniform<i8:f32, 8.0>
!b4 = !quant.uniform<i32:f32, 4.0>
!b8 = !quant.uniform<i32:f32, 8.0>

// Everything in order: 2 * 2 = 4, the residual 8 / 2^1 = 4, the result 4 * 2^1 = 8. Integers
// of two bytes leave nothing in a shift of 31, and would not in one of 40 either.
func.func @right(%x: tensor<1x1x!q2>, %w: tensor<1x1x!q2>, %b: tensor<1x!b4>, %r: tensor<1x1x!q8>) {
  %0 = graph.matmul %x, %w bias %b : tensor<1x!b4> residual %r : tensor<1x1x!q8> {residual_shift = 1 : i64, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q2>, tensor<1x1x!q2>) -> tensor<1x1x!q8>
  %1 = graph.binary add %x, %r {rhs_shift = 2 : i64, requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q2>, tensor<1x1x!q8>) -> tensor<1x1x!q8>
  %2 = graph.binary mul %x, %r {requant = #graph.requant<multiplier = 2, shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q2>, tensor<1x1x!q8>) -> tensor<1x1x!q8>
  %3 = graph.requantize %r {requant = #graph.requant<multiplier = 1431655765, shift = 31, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q8>) -> tensor<1x1x!quant.uniform<i8:f32, 12.0>>
  %4 = graph.requantize %r {requant = #graph.requant<shift = 31, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q8>) -> tensor<1x1x!quant.uniform<i8:f32, 8796093022208.0>>
  func.return
}

// -----

!q2 = !quant.uniform<i8:f32, 2.0>
!q8 = !quant.uniform<i8:f32, 8.0>
!b8 = !quant.uniform<i32:f32, 8.0>

func.func @wrong(%x: tensor<1x1x!q2>, %w: tensor<1x1x!q2>, %b: tensor<1x!b8>, %r: tensor<1x1x!q8>, %p: tensor<1x2x2x1x!q2>) {
  // expected-error@+3 {{the bias has scale 8.0, but the accumulator has 4.0}}
  // expected-error@+2 {{the shifted residual has scale 8.0, but the accumulator has 4.0}}
  // expected-error@+1 {{the requantized accumulator has scale 16.0, but the result has 8.0}}
  %0 = graph.matmul %x, %w bias %b : tensor<1x!b8> residual %r : tensor<1x1x!q8> {requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q2>, tensor<1x1x!q2>) -> tensor<1x1x!q8>
  // expected-error@+2 {{the shifted lhs has scale 2.0, but the shifted rhs has 8.0}}
  // expected-error@+1 {{the requantized accumulator has scale 2.0, but the result has 8.0}}
  %1 = graph.binary add %x, %r {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q2>, tensor<1x1x!q8>) -> tensor<1x1x!q8>
  // expected-error@+1 {{the requantized accumulator has scale 8.0, but the result has 2.0}}
  %2 = graph.pool2d average %p {kernel = array<i64: 2, 2>, requant = #graph.requant<shift = 4, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x2x1x!q2>) -> tensor<1x1x1x1x!q2>
  // expected-error@+1 {{the requantized accumulator has scale 8.0, but the result has 2.0}}
  %3 = graph.requantize %r {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q8>) -> tensor<1x1x!q2>
  func.return
}

// -----

!q2 = !quant.uniform<i8:f32, 2.0>
!q4 = !quant.uniform<i8:f32, 4.0>
!q8 = !quant.uniform<i8:f32, 8.0>
!q12 = !quant.uniform<i8:f32, 12.0>

// A multiplier may be a step off, of which 171 / 2^8 is the nearest to 2 / 3; not two.
func.func @steps(%x: tensor<1x1x!q2>, %y: tensor<1x1x!q4>, %r: tensor<1x1x!q8>, %b: tensor<1x!quant.uniform<i32:f32, 4.0000005>>, %c: tensor<1x!quant.uniform<i32:f32, 4.000002>>) {
  %0 = graph.requantize %r {requant = #graph.requant<multiplier = 171, shift = 8, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q8>) -> tensor<1x1x!q12>
  %1 = graph.requantize %r {requant = #graph.requant<multiplier = 170, shift = 8, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q8>) -> tensor<1x1x!q12>
  // expected-error@+1 {{the requantized accumulator has scale 11.9}}
  %2 = graph.requantize %r {requant = #graph.requant<multiplier = 172, shift = 8, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q8>) -> tensor<1x1x!q12>
  // expected-error@+1 {{the requantized accumulator has scale 12.1}}
  %3 = graph.requantize %r {requant = #graph.requant<multiplier = 169, shift = 8, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q8>) -> tensor<1x1x!q12>
  // Of a shift there is no step, nor of a bias; one float32 number is no step.
  %4 = graph.matmul %x, %x bias %b : tensor<1x!quant.uniform<i32:f32, 4.0000005>> {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q2>, tensor<1x1x!q2>) -> tensor<1x1x!q8>
  // expected-error@+1 {{the bias has scale 4.000002}}
  %5 = graph.matmul %x, %x bias %c : tensor<1x!quant.uniform<i32:f32, 4.000002>> {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q2>, tensor<1x1x!q2>) -> tensor<1x1x!q8>
  // A shift of 31 leaves nothing, but not for a result so fine.
  // expected-error@+1 {{the requantized accumulator has scale 17179869184.0, but the result has 8.0}}
  %6 = graph.requantize %r {requant = #graph.requant<shift = 31, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q8>) -> tensor<1x1x!q8>
  // Addends with multipliers of their own: 4 / 2^4 * 8 and 8 / 2^4 * 8.
  %7 = graph.binary add %x, %y {lhs_multiplier = 4 : i64, rhs_multiplier = 8 : i64, requant = #graph.requant<shift = 4, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q2>, tensor<1x1x!q4>) -> tensor<1x1x!q8>
  // expected-error@+1 {{the multiplied lhs has scale 3.0, but the operand has 2.0}}
  %8 = graph.binary add %x, %y {lhs_multiplier = 6 : i64, rhs_multiplier = 8 : i64, requant = #graph.requant<shift = 4, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q2>, tensor<1x1x!q4>) -> tensor<1x1x!q8>
  func.return
}

// -----

!h = !quant.uniform<i8:f32, 0.5>
!w = !quant.uniform<i8:f32:0, {0.5, 0.25}>

// Every channel has its own.
func.func @channels(%x: tensor<1x1x!h>, %w: tensor<2x1x!w>) {
  %0 = graph.matmul %x, %w {requant = #graph.requant<multiplier = [512, 256], shift = 10, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!h>, tensor<2x1x!w>) -> tensor<1x2x!h>
  // expected-error@+1 {{the requantized accumulator has scale 0.496}}
  %1 = graph.matmul %x, %w {requant = #graph.requant<multiplier = [512, 258], shift = 10, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!h>, tensor<2x1x!w>) -> tensor<1x2x!h>
  func.return
}

// -----

!a = !quant.uniform<i16:f32, 3.1250900065060705e-05:-23808>
!b = !quant.uniform<i8:f32, 0.01600029692053795:-93>
!c = !quant.uniform<i8:f32, 0.016005:-93>

// Addends of 16 bits leave 12 to their multipliers, which are 1 then where 2^-9 is that near.
func.func @wide(%x: tensor<1x!a>, %y: tensor<1x!a>) {
  %0 = graph.binary add %x, %y {requant = #graph.requant<shift = 9, rounding = half_even, zero_point = -93, low = -128, high = 127>} : (tensor<1x!a>, tensor<1x!a>) -> tensor<1x!b>
  // expected-error@+1 {{the requantized accumulator has scale 0.01600046083331108, but the result has 0.016005}}
  %1 = graph.binary add %x, %y {requant = #graph.requant<shift = 9, rounding = half_even, zero_point = -93, low = -128, high = 127>} : (tensor<1x!a>, tensor<1x!a>) -> tensor<1x!c>
  func.return
}

// -----

// Integers of activations mean the same in all channels: no sum could be taken over them.
!c2 = !quant.uniform<i8:f32:0, {1.0, 2.0}>
!q1 = !quant.uniform<i8:f32, 1.0>

func.func @channels(%x: tensor<2x2x!c2>, %y: tensor<2x2x!q1>, %w: tensor<2x2x!c2>) {
  // expected-error@+1 {{activations must have a single scale; only constants have per-channel scales}}
  %0 = graph.matmul %x, %w {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<2x2x!c2>, tensor<2x2x!c2>) -> tensor<2x2x!q1>
  // expected-error@+1 {{activations must have a single scale; only constants have per-channel scales}}
  %1 = graph.requantize %y {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<2x2x!q1>) -> tensor<2x2x!c2>
  func.return
}

// -----

// A table makes what it likes, floats too; bias and residual in front of it still have to agree.
func.func @table(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2xf32> {
  %w = graph.constant dense<1> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  %y = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, table = dense<2.0> : tensor<256xf32>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

!q = !quant.uniform<i8:f32, 2.0>
!z = !quant.uniform<i8:f32, 4.0:-128>

// Zero becomes zero: a rectified result that uses all 256 numbers begins at -128.
func.func @zero_points(%x: tensor<1x1x!q>, %w: tensor<1x1x!q>) {
  %0 = graph.matmul %x, %w {requant = #graph.requant<shift = 0, rounding = half_up, zero_point = -128, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<1x1x!q>) -> tensor<1x1x!z>
  // expected-error@+1 {{the requantization adds zero point -100, but the result has -128}}
  %1 = graph.matmul %x, %w {requant = #graph.requant<shift = 0, rounding = half_up, zero_point = -100, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<1x1x!q>) -> tensor<1x1x!z>
  // expected-error@+1 {{the requantization adds zero point 0, but the result has -128}}
  %2 = graph.binary add %x, %x {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<1x1x!q>) -> tensor<1x1x!z>
  func.return
}
