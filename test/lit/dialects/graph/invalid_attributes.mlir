// RUN: ceras-opt %s --verify-diagnostics --split-input-file --allow-unregistered-dialect

// expected-error@+1 {{shift must be in [0, 62], got 63}}
"test.op"() {value = #graph.requant<shift = 63, rounding = half_up, low = 0, high = 1>} : () -> ()

// -----

// expected-error@+1 {{multiplier must be in [1, 2^62), got 0}}
"test.op"() {value = #graph.requant<multiplier = 0, shift = 3, rounding = half_up, low = 0, high = 1>} : () -> ()

// -----

// expected-error@+1 {{Expected `half_up`, `half_away`, `half_even`, `floor`, or `double_round`.}}
"test.op"() {value = #graph.requant<shift = 3, rounding = nearest, low = 0, high = 1>} : () -> ()

// -----

// expected-error@+1 {{empty clamp range [2, 1]}}
"test.op"() {value = #graph.requant<shift = 3, rounding = half_up, low = 2, high = 1>} : () -> ()

// -----

// expected-error@+1 {{#graph.requant needs rounding}}
"test.op"() {value = #graph.requant<shift = 3, low = 0, high = 1>} : () -> ()

// -----

// expected-error@+1 {{unknown or repeated field 'bits' of #graph.requant}}
"test.op"() {value = #graph.requant<bits = 3>} : () -> ()

// -----

// expected-error@+1 {{function must be one of relu, clip,}}
"test.op"() {value = #graph.function<cosine>} : () -> ()

// -----

// expected-error@+1 {{clip has 2 parameters, got 1}}
"test.op"() {value = #graph.function<clip, 1.0>} : () -> ()

// -----

// expected-error@+1 {{empty clip range [6.0, 0.0]}}
"test.op"() {value = #graph.function<clip, 6.0, 0.0>} : () -> ()

// -----

// expected-error@+1 {{storage must be i1 to i8, u1 to u8, or 16 or 32 bits wide, got i12}}
"test.op"() {value = !quant.uniform<i12:f32, 0.5>} : () -> ()

// -----

// expected-error@+1 {{the zero point of i1 must be 0, got 1}}
"test.op"() {value = !quant.uniform<i1:f32, 0.5:1>} : () -> ()

// -----

// expected-error@+1 {{zero point must be in [-8, 7], got 8}}
"test.op"() {value = !quant.uniform<i4:f32, 0.5:8>} : () -> ()

// -----

// expected-error@+1 {{scale must be positive and finite, got 0.0}}
"test.op"() {value = !quant.uniform<i8:f32, 0.0>} : () -> ()

// -----

// expected-error@+1 {{zero point must be in [-128, 127], got 128}}
"test.op"() {value = !quant.uniform<i8:f32, 0.5:128>} : () -> ()

// -----

// expected-error@+1 {{f32 is the only expressed type}}
"test.op"() {value = !quant.uniform<i8:f64, 0.5>} : () -> ()

// -----

// expected-error@+1 {{integer storage type expected, got f32}}
"test.op"() {value = !quant.uniform<f32:f32, 0.5>} : () -> ()

// -----

// expected-error@+1 {{the shift of multiplier 3 must be in [1, 62], got 0}}
"test.op"() {value = #graph.requant<multiplier = 3, shift = 0, rounding = double_round, low = 0, high = 1>} : () -> ()

// -----

// expected-error@+1 {{multiplier 4294967297 must have at most 31 significant bits}}
"test.op"() {value = #graph.requant<multiplier = 4294967297, shift = 40, rounding = half_up, low = 0, high = 1>} : () -> ()

// -----

// expected-error@+1 {{multiplier must be in [1, 2^31), got 2147483648}}
"test.op"() {value = #graph.requant<multiplier = 2147483648, shift = 40, rounding = half_even, low = 0, high = 1>} : () -> ()
