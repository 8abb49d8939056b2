// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @case0(%x: tensor<1x2x!quant.uniform<i16:f32, 0.125>>, %z: tensor<1x2xf32>) {
  // expected-error@+1 {{a table must have entries of i16, got tensor<512xi8>}}
  %0 = graph.lookup %x, dense<0> : tensor<512xi8> : (tensor<1x2x!quant.uniform<i16:f32, 0.125>>) -> tensor<1x2x!quant.uniform<i16:f32, 0.125>>
  func.return
}

// -----

func.func @case1(%x: tensor<1x2x!quant.uniform<i16:f32, 0.125>>, %z: tensor<1x2xf32>) {
  // expected-error@+1 {{a table for int16 has a power of two from 256 to 65536 entries, got tensor<300xi8>}}
  %0 = graph.lookup %x, dense<0> : tensor<300xi8> : (tensor<1x2x!quant.uniform<i16:f32, 0.125>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case2(%x: tensor<1x2x!quant.uniform<i16:f32, 0.125>>, %z: tensor<1x2xf32>) {
  // expected-error@+1 {{a table must have entries of i8, got tensor<256xi16>}}
  %0 = graph.lookup %x, dense<0> : tensor<256xi16> : (tensor<1x2x!quant.uniform<i16:f32, 0.125>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case3(%x: tensor<1x2x!quant.uniform<i16:f32, 0.125>>, %z: tensor<1x2xf32>) {
  // expected-error@+1 {{expected a single table, or 'rows' and several tables: tensor<2x256xi8>}}
  %0 = graph.lookup %x, dense<0> : tensor<2x256xi8> : (tensor<1x2x!quant.uniform<i16:f32, 0.125>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case4(%x: tensor<1x2x!quant.uniform<i16:f32, 0.125>>, %z: tensor<1x2xf32>) {
  // expected-error@+1 {{expected a row below 2 for each of 2 channels, got [0, 2]}}
  %0 = graph.lookup %x, dense<0> : tensor<2x256xi8> {rows = array<i64: 0, 2>} : (tensor<1x2x!quant.uniform<i16:f32, 0.125>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case5(%x: tensor<1x2x!quant.uniform<i16:f32, 0.125>>, %z: tensor<1x2xf32>) {
  // expected-error@+1 {{5 or 10 bends expected, got 2}}
  %0 = graph.shift_swish %x {bends = array<i64: 1, 2>, requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x!quant.uniform<i16:f32, 0.125>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case6(%x: tensor<1x2x!quant.uniform<i16:f32, 0.125>>, %z: tensor<1x2xf32>) {
  // expected-error@+1 {{bends must be in [0, 32767]}}
  %0 = graph.shift_swish %x {bends = array<i64: 1, 2, 4, 3, 32768>, requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x!quant.uniform<i16:f32, 0.125>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case7(%x: tensor<1x2x!quant.uniform<i16:f32, 0.125>>, %z: tensor<1x2xf32>) {
  // expected-error@+1 {{'requant' must be a shift}}
  %0 = graph.shift_swish %x {bends = array<i64: 1, 2, 4, 3, 1>, requant = #graph.requant<multiplier = 3, shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x!quant.uniform<i16:f32, 0.125>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @case8(%x: tensor<1x2x!quant.uniform<i16:f32, 0.125>>, %z: tensor<1x2xf32>) {
  // expected-error@+1 {{exponents of operand and result must be given together}}
  %0 = graph.unary <swish> %z {input_exponents = array<i64: 1, 2>} : tensor<1x2xf32>
  func.return
}

// -----

func.func @case9(%x: tensor<1x2x!quant.uniform<i16:f32, 0.125>>, %z: tensor<1x2xf32>) {
  // expected-error@+1 {{2 exponents <= 64 expected, got [65, 1]}}
  %0 = graph.unary <swish> %z {input_exponents = array<i64: 1, 2>, result_exponents = array<i64: 65, 1>} : tensor<1x2xf32>
  func.return
}

// -----

func.func @fused1(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{'rows' needs a 'table'}}
  %0 = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, rows = array<i64: 0, 0>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @fused2(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{a table for int8 has 256 entries, got 512}}
  %0 = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, table = dense<3> : tensor<512xi8>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @fused3(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{a table must have entries of i8, got tensor<256xi16>}}
  %0 = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, table = dense<3> : tensor<256xi16>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @fused4(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{expected a single table, or 'rows' and several tables: tensor<256xi8>}}
  %0 = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, table = dense<3> : tensor<256xi8>, rows = array<i64: 0, 0>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @fused5(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{a 'table' needs quantized operands and 'requant'}}
  %0 = graph.matmul %x, %w {table = dense<3> : tensor<256xi8>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @fused6(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{the clamp range before a table must be in [-128, 127]}}
  %0 = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -200, high = 127>, table = dense<3> : tensor<256xi8>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @fused7(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{a table must return int8 or f32, got tensor<3x2x!quant.uniform<i16:f32, 0.5>>}}
  %0 = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, table = dense<3> : tensor<256xi16>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i16:f32, 0.5>>
  func.return
}
