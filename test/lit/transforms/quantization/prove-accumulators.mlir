// RUN: ceras-opt %s --prove-accumulators --split-input-file --verify-diagnostics

!q = !quant.uniform<i8:f32, 1.0>
!b = !quant.uniform<i32:f32, 1.0>

// 128 * 127 + |bias| + 128 * 2^7 + 2^9 is exactly 2^31 - 1: it fits.
func.func @fits(%x: tensor<1x1x!q>, %r: tensor<1x1x!q>) {
  %w = graph.constant dense<-127> : tensor<1x1xi8> : tensor<1x1x!q>
  %b = graph.constant dense<-2147450495> : tensor<1xi32> : tensor<1x!b>
  %0 = graph.matmul %x, %w bias %b : tensor<1x!b> residual %r : tensor<1x1x!q> {residual_shift = 7 : i64, requant = #graph.requant<shift = 10, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<1x1x!q>) -> tensor<1x1x!quant.uniform<i8:f32, 1024.0>>
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
!b = !quant.uniform<i32:f32, 1.0>

// One more in the second channel, and it does not. A shift of zero rounds nothing, flooring
// adds nothing, and multipliers work on 64 bits.
func.func @overflows(%x: tensor<1x1x!q>, %r: tensor<1x1x!q>, %c: tensor<1x2x!q>, %v: tensor<1x!b>) {
  %w = graph.constant dense<-127> : tensor<2x1xi8> : tensor<2x1x!q>
  %b = graph.constant dense<[0, -2147466880]> : tensor<2xi32> : tensor<2x!b>
  // expected-error@+1 {{the accumulator can reach 2147483648, which exceeds 2147483647 (2^31 - 1); choose a coarser scale for the weights or the result}}
  %0 = graph.matmul %x, %w bias %b : tensor<2x!b> {requant = #graph.requant<shift = 10, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<2x1x!q>) -> tensor<1x2x!quant.uniform<i8:f32, 1024.0>>
  %1 = graph.matmul %x, %w bias %b : tensor<2x!b> {requant = #graph.requant<shift = 10, rounding = floor, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<2x1x!q>) -> tensor<1x2x!quant.uniform<i8:f32, 1024.0>>
  %2 = graph.matmul %x, %w bias %b : tensor<2x!b> {requant = #graph.requant<multiplier = 2, shift = 11, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<2x1x!q>) -> tensor<1x2x!quant.uniform<i8:f32, 1024.0>>
  // A bias that is computed can be anything.
  // expected-error@+1 {{the accumulator can reach}}
  %3 = graph.matmul %x, %r bias %v : tensor<1x!b> {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<1x1x!q>) -> tensor<1x1x!q>
  // 128 * 128 + 2^30 and 128 * 2^22 * 2 + 2^30.
  %4 = graph.binary mul %x, %r {requant = #graph.requant<shift = 31, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<1x1x!q>) -> tensor<1x1x!quant.uniform<i8:f32, 2147483648.0>>
  // expected-error@+1 {{the accumulator can reach 2147483648}}
  %5 = graph.binary add %x, %r {lhs_shift = 22 : i64, rhs_shift = 22 : i64, requant = #graph.requant<shift = 31, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<1x1x!q>) -> tensor<1x1x!quant.uniform<i8:f32, 512.0>>
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
!z = !quant.uniform<i8:f32, 1.0:1>
!h = !quant.uniform<i16:f32, 1.0>
!b = !quant.uniform<i32:f32, 1.0>

// Every term counts: pairs of which the first is 2^31 - 1 and the second one more.
func.func @limits(%x: tensor<1x2x!q>, %y: tensor<1x1x!q>, %u: tensor<1x1x!h>, %p: tensor<1x256x257x1x!h>) {
  // 128 * (127 + 127) + |bias|.
  %w = graph.constant dense<127> : tensor<1x2xi8> : tensor<1x2x!q>
  %b0 = graph.constant dense<2147451135> : tensor<1xi32> : tensor<1x!b>
  %b1 = graph.constant dense<2147451136> : tensor<1xi32> : tensor<1x!b>
  %0 = graph.matmul %x, %w bias %b0 : tensor<1x!b> {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x!q>, tensor<1x2x!q>) -> tensor<1x1x!q>
  // expected-error@+1 {{the accumulator can reach 2147483648}}
  %1 = graph.matmul %x, %w bias %b1 : tensor<1x!b> {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x!q>, tensor<1x2x!q>) -> tensor<1x1x!q>
  // 128 * |-127 - 1| + |bias|: a weight less its zero point.
  %v = graph.constant dense<-127> : tensor<1x1xi8> : tensor<1x1x!z>
  %b2 = graph.constant dense<2147467263> : tensor<1xi32> : tensor<1x!b>
  %b3 = graph.constant dense<2147467264> : tensor<1xi32> : tensor<1x!b>
  %2 = graph.matmul %y, %v bias %b2 : tensor<1x!b> {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<1x1x!z>) -> tensor<1x1x!q>
  // expected-error@+1 {{the accumulator can reach 2147483648}}
  %3 = graph.matmul %y, %v bias %b3 : tensor<1x!b> {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<1x1x!z>) -> tensor<1x1x!q>
  // 128 * 127 + |bias| + 128 * 2^7 + 2^9: a residual moved left.
  %s = graph.constant dense<-127> : tensor<1x1xi8> : tensor<1x1x!q>
  %b4 = graph.constant dense<-2147450495> : tensor<1xi32> : tensor<1x!b>
  %b5 = graph.constant dense<-2147450496> : tensor<1xi32> : tensor<1x!b>
  %4 = graph.matmul %y, %s bias %b4 : tensor<1x!b> residual %y : tensor<1x1x!q> {residual_shift = 7 : i64, requant = #graph.requant<shift = 10, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<1x1x!q>) -> tensor<1x1x!quant.uniform<i8:f32, 1024.0>>
  // expected-error@+1 {{the accumulator can reach 2147483648}}
  %5 = graph.matmul %y, %s bias %b5 : tensor<1x!b> residual %y : tensor<1x1x!q> {residual_shift = 7 : i64, requant = #graph.requant<shift = 10, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!q>, tensor<1x1x!q>) -> tensor<1x1x!quant.uniform<i8:f32, 1024.0>>
  // 2^15 * 2^15 and half of 2^30, or of 2^31.
  %6 = graph.binary mul %u, %u {requant = #graph.requant<shift = 30, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!h>, tensor<1x1x!h>) -> tensor<1x1x!quant.uniform<i8:f32, 1073741824.0>>
  // expected-error@+1 {{the accumulator can reach 2147483648}}
  %7 = graph.binary mul %u, %u {requant = #graph.requant<shift = 31, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!h>, tensor<1x1x!h>) -> tensor<1x1x!quant.uniform<i8:f32, 2147483648.0>>
  // 255 * 257 * 2^15, and 256 * 256 * 2^15.
  %8 = graph.pool2d average %p {kernel = array<i64: 255, 257>, requant = #graph.requant<multiplier = 16385, shift = 30, rounding = half_up, low = -128, high = 127>} : (tensor<1x256x257x1x!h>) -> tensor<1x2x1x1x!h>
  // expected-error@+1 {{the accumulator can reach 2147483648}}
  %9 = graph.pool2d average %p {kernel = array<i64: 256, 256>, requant = #graph.requant<shift = 16, rounding = half_up, low = -128, high = 127>} : (tensor<1x256x257x1x!h>) -> tensor<1x1x2x1x!h>
  func.return
}

// -----

!w = !quant.uniform<i32:f32, 1.0>
!s = !quant.uniform<i16:f32, 1.0>

// The clamp range of a requantization bounds its result, but 32 bits do not bound an argument.
func.func @clamped(%x: tensor<1x1x!s>, %v: tensor<1x1x!w>) {
  %0 = graph.requantize %x {requant = #graph.requant<shift = 0, rounding = half_up, low = -65536, high = 65535>} : (tensor<1x1x!s>) -> tensor<1x1x!w>
  %1 = graph.binary add %0, %x {requant = #graph.requant<shift = 0, rounding = half_up, low = -32768, high = 32767>} : (tensor<1x1x!w>, tensor<1x1x!s>) -> tensor<1x1x!s>
  // expected-error@+1 {{the accumulator can reach 2147516416}}
  %2 = graph.binary add %v, %x {requant = #graph.requant<shift = 0, rounding = half_up, low = -32768, high = 32767>} : (tensor<1x1x!w>, tensor<1x1x!s>) -> tensor<1x1x!s>
  func.return
}
