// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @float(%x: tensor<3x4xi32>, %f: tensor<4xf32>) {
  // expected-error@+1 {{elements must be f32 or quantized, got i32}}
  %0 = graph.normalize %x scale %f : tensor<4xf32> {epsilon = 1.0e-5 : f32, centred = false} : tensor<3x4xi32> -> tensor<3x4xi32>
  func.return
}

// -----

func.func @channels(%x: tensor<3x4xf32>, %f: tensor<3xf32>) {
  // expected-error@+1 {{scale must have shape (4,), got (3,)}}
  %0 = graph.normalize %x scale %f : tensor<3xf32> {epsilon = 1.0e-5 : f32, centred = false} : tensor<3x4xf32> -> tensor<3x4xf32>
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 0.0625>
!s = !quant.uniform<i8:f32, 0.5>
!b = !quant.uniform<i32:f32, 0.0001220703125>
func.func @scale(%q: tensor<3x4x!q>, %s: tensor<4x!s>, %b: tensor<4x!b>) {
  // expected-error@+1 {{scale must be stored in i16 without zero point}}
  %2 = graph.integer_normalize %q scale %s : tensor<4x!s> bias %b : tensor<4x!b> {epsilon = 1024 : i64, centred = true, requant = #graph.requant<shift = 6, rounding = half_up, low = -128, high = 127>} : tensor<3x4x!q> -> tensor<3x4x!q>
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 0.0625>
!s = !quant.uniform<i16:f32, 0.5>
!b = !quant.uniform<i32:f32, 0.0001220703125>
func.func @epsilon(%q: tensor<3x4x!q>, %s: tensor<4x!s>, %b: tensor<4x!b>) {
  // expected-error@+1 {{epsilon must be in [1024, 2^62], got 1}}
  %2 = graph.integer_normalize %q scale %s : tensor<4x!s> bias %b : tensor<4x!b> {epsilon = 1 : i64, centred = true, requant = #graph.requant<shift = 6, rounding = half_up, low = -128, high = 127>} : tensor<3x4x!q> -> tensor<3x4x!q>
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 0.0625>
!t = !quant.uniform<i32:f32, 3.0517578125e-05>
func.func @rounding(%q: tensor<3x4x!q>, %t: tensor<9x!t>) {
  // expected-error@+1 {{'requant' must be a shift that rounds half up}}
  %3 = graph.integer_softmax %q table %t : tensor<9x!t> {axis = 1 : i64, requant = #graph.requant<shift = 27, rounding = half_even, low = -128, high = 127>} : tensor<3x4x!q> -> tensor<3x4x!q>
  func.return
}

// -----

!q = !quant.uniform<i8:f32, 0.0625>
!t = !quant.uniform<i32:f32, 3.0517578125e-05>
func.func @table(%q: tensor<3x4x!q>, %t: tensor<1x!t>) {
  // expected-error@+1 {{a table must have 2 to 4096 entries, got (1,)}}
  %3 = graph.integer_softmax %q table %t : tensor<1x!t> {axis = 1 : i64, requant = #graph.requant<shift = 27, rounding = half_up, low = -128, high = 127>} : tensor<3x4x!q> -> tensor<3x4x!q>
  func.return
}

// -----

!t = !quant.uniform<i32:f32, 3.0517578125e-05>
func.func @storage(%q: tensor<3x4xf32>, %t: tensor<9x!t>) {
  // expected-error@+1 {{expected int8 or int16 with a single scale, got tensor<3x4xf32>}}
  %3 = graph.integer_softmax %q table %t : tensor<9x!t> {axis = 1 : i64, requant = #graph.requant<shift = 27, rounding = half_up, low = -128, high = 127>} : tensor<3x4xf32> -> tensor<3x4xf32>
  func.return
}
