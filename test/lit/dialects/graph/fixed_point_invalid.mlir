// RUN: ceras-opt --split-input-file --verify-diagnostics %s

!x = tensor<2x4x!quant.uniform<i16:f32, 0.5>>
!t = tensor<256x!quant.uniform<i32:f32, 1.0>>
func.func @main(%x: !x) -> !x {
  %t = graph.constant dense<2147483647> : tensor<256xi32> : !t
  // expected-error@+1 {{int8 with a single scale expected}}
  %y = graph.fixed_point_softmax %x table %t : !t : !x -> !x
  func.return %y : !x
}

// -----

!x = tensor<2x4x!quant.uniform<i8:f32, 0.5>>
!t = tensor<256x!quant.uniform<i32:f32, 1.0>>
func.func @main(%x: !x) -> !x {
  %t = graph.constant dense<7> : tensor<256xi32> : !t
  // expected-error@+1 {{the table must not be negative, and its first entry large}}
  %y = graph.fixed_point_softmax %x table %t : !t : !x -> !x
  func.return %y : !x
}

// -----

!x = tensor<4x!quant.uniform<i8:f32, 0.5>>
#r = #graph.requant<shift = 4, rounding = half_up, low = -128, high = 127>
func.func @main(%x: !x) -> !x {
  // expected-error@+1 {{'lhs_requant' and 'rhs_requant' must be given together}}
  %y = graph.binary add %x, %x {lhs_requant = #r, requant = #r} : (!x, !x) -> !x
  func.return %y : !x
}

// -----

!x = tensor<4x!quant.uniform<i8:f32, 0.5>>
#r = #graph.requant<shift = 4, rounding = half_up, low = -128, high = 127>
func.func @main(%x: !x) -> !x {
  // expected-error@+1 {{only quantized 'add' and 'sub' can requantize operands}}
  %y = graph.binary mul %x, %x {lhs_requant = #r, rhs_requant = #r, requant = #r} : (!x, !x) -> !x
  func.return %y : !x
}

// -----

!x = tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
!y = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
#r = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>
func.func @main(%x: !x) -> !y {
  // expected-error@+1 {{'divides' needs a quantized result of the type of the operand}}
  %y = graph.pool2d average %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, divides, requant = #r} : (!x) -> !y
  func.return %y : !y
}
