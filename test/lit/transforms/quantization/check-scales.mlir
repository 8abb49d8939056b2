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
