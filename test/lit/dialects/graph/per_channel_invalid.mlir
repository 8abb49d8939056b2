// RUN: ceras-opt %s --split-input-file --verify-diagnostics

func.func @count(%x: tensor<1x2x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{'requant' has 3 multipliers, expected 2}}
  %y = graph.matmul %x, %w {requant = #graph.requant<multiplier = [5, 7, 9], shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @binary(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{'requant' has 2 multipliers, expected 1}}
  %y = graph.binary add %x, %x {requant = #graph.requant<multiplier = [5, 7], shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @requantize(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{'requant' must have a single multiplier}}
  %y = graph.requantize %x {requant = #graph.requant<multiplier = [5, 7], shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @factor(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{operand multipliers, shifted, must be in [1, 4194304], got [8388608, 1]}}
  %y = graph.binary add %x, %x {lhs_shift = 1 : i64, lhs_multiplier = 4194304 : i64, requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  func.return
}
