// RUN: ceras-opt %s --quantize-graph="rules=operations" --split-input-file | filecheck %s
// RUN: ceras-opt %s --quantize-graph="rules=operations" --quantize-graph="rules=operations" --split-input-file | filecheck %s

// x in steps of 2^-3, w of 2^-2, so the accumulator and the bias in steps of 2^-5; the
// residual in steps of 2^-4 is moved one to the left, the result, 2^-1, is 4 to the right.
// The clip at 6.25 is 12.5 steps, rounded half up to 13.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<1x2xf32> {graph.name = "in"}, %[[R:[a-z0-9]+]]: tensor<1x2xf32>) -> tensor<1x2xf32> {
// CHECK-NEXT:    %[[QX:.*]] = graph.quantize %[[X]] : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.125>>
// CHECK-NEXT:    %[[QR:.*]] = graph.quantize %[[R]] : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.0625>>
// CHECK-NEXT:    %[[W:.*]] = graph.constant dense<{{\[}}[4, -8], [127, -127]]> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
// CHECK-NEXT:    %[[B:.*]] = graph.constant dense<[32, -80]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.03125>>
// CHECK-NEXT:    %[[Q:.*]] = graph.matmul %[[QX]], %[[W]] bias %[[B]] : {{.*}} residual %[[QR]] : {{.*}} {requant = #graph.requant<shift = 4, rounding = half_up, low = 0, high = 13>, residual_shift = 1 : i64} : {{.*}} -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    %[[Y:.*]] = graph.dequantize %[[Q]] : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2xf32>
// CHECK-NEXT:    func.return %[[Y]]
func.func @main(%x: tensor<1x2xf32> {graph.name = "in", graph.exponent = -3 : i64, graph.range = array<f32: -4.0, 4.0>}, %r: tensor<1x2xf32> {graph.exponent = -4 : i64}) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[1.0, -2.0], [1000.0, -1000.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %b = graph.constant dense<[1.0, -2.5]> : tensor<2xf32> : tensor<2xf32>
  %a = graph.matmul %x, %w bias %b : tensor<2xf32> residual %r : tensor<1x2xf32> {activation = #graph.function<clip, -0.0, 6.25>, graph.weight_exponent = -2 : i64, graph.exponent = -1 : i64} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %a : tensor<1x2xf32>
}

// -----

// Sums are aligned at the finer scale and rounded once; a constant has a scale of its own. A
// function that clips is a clamp, another one a table, which remembers it.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[S:.*]] = graph.binary sub %{{.*}}, %{{.*}} {rhs_shift = 4 : i64, requant = #graph.requant<shift = 2, rounding = half_up, low = 0, high = 127>} : {{.*}} -> tensor<2x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    %[[M:.*]] = graph.binary mul %[[S]], %{{.*}} {requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : {{.*}} -> tensor<2x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    %[[C:.*]] = graph.requantize %[[M]] {requant = #graph.requant<shift = 1, rounding = half_up, low = -3, high = 127>}
// CHECK-NEXT:    %[[T:.*]] = graph.lookup %[[C]], dense<"0x{{.*}}"> : tensor<256xi8> {graph.function = #graph.function<tanh>} : {{.*}} -> tensor<2x!quant.uniform<i8:f32, 0.0078125>>
func.func @main(%x: tensor<2xf32> {graph.exponent = -3 : i64}) -> tensor<2xf32> {
  %k = graph.constant dense<[254.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %a = graph.binary sub %x, %k {activation = #graph.function<relu>, graph.exponent = -1 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %b = graph.binary mul %a, %x {graph.exponent = -1 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %c = graph.unary <clip, -3.0, inf> %b {graph.exponent = 0 : i64} : tensor<2xf32>
  %d = graph.unary <tanh> %c {graph.exponent = -7 : i64} : tensor<2xf32>
  func.return %d : tensor<2xf32>
}

// -----

// Elements that are only moved keep their scale; a concatenation whose operand has another
// one gets it rescaled, once however often it asks. An average divides by a reciprocal.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[X:.*]] = graph.quantize
// CHECK-NEXT:    %[[M:.*]] = graph.pool2d max %[[X]]
// CHECK-NEXT:    %[[Z:.*]] = graph.requantize %[[M]] {requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>}
// CHECK-NEXT:    %[[A:.*]] = graph.pool2d average %[[M]] {kernel = array<i64: 3, 3>, requant = #graph.requant<multiplier = 59652324, shift = 29, rounding = half_up, low = -128, high = 127>}
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %[[X]]
// CHECK-NEXT:    %[[C:.*]] = graph.concat %[[Z]], %[[Z]]
// CHECK-NEXT:    %[[R:.*]] = graph.resize nearest %[[C]]
func.func @main(%x: tensor<1x3x3x1xf32> {graph.exponent = -3 : i64}) -> (tensor<1x1x1x1xf32>, tensor<1x1x3x3xf32>, tensor<1x6x12x1xf32>) {
  %m = graph.pool2d max %x {kernel = array<i64: 1, 1>, graph.exponent = -3 : i64} : (tensor<1x3x3x1xf32>) -> tensor<1x3x3x1xf32>
  %a = graph.pool2d average %m {kernel = array<i64: 3, 3>, graph.exponent = -3 : i64} : (tensor<1x3x3x1xf32>) -> tensor<1x1x1x1xf32>
  %t = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x3x3x1xf32>) -> tensor<1x1x3x3xf32>
  %u = graph.concat %m, %m {axis = 2 : i64, graph.exponent = -1 : i64} : (tensor<1x3x3x1xf32>, tensor<1x3x3x1xf32>) -> tensor<1x3x6x1xf32>
  %r = graph.resize nearest %u coordinates asymmetric rounding floor {scales = array<f64: 2.0, 2.0>} : (tensor<1x3x6x1xf32>) -> tensor<1x6x12x1xf32>
  %b = graph.unary <tanh> %t {graph.exponent = -7 : i64} : tensor<1x1x3x3xf32>
  func.return %a, %b, %r : tensor<1x1x1x1xf32>, tensor<1x1x3x3xf32>, tensor<1x6x12x1xf32>
}

// -----

// What has no quantized form, and what is asked to, stays float; around it the values change
// hands, each once. What is only moved between float operations is not quantized at all.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[X:.*]] = graph.quantize
// CHECK-NEXT:    %[[A:.*]] = graph.binary add %[[X]], %[[X]]
// CHECK-NEXT:    %[[D:.*]] = graph.dequantize %[[A]]
// CHECK-NEXT:    %[[S:.*]] = graph.reduce sum %[[D]]
// CHECK-NEXT:    %[[Q:.*]] = graph.quantize %[[S]]
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %[[S]] : (tensor<1x1xf32>) -> tensor<1xf32>
// CHECK-NEXT:    %[[M:.*]] = graph.binary mul %[[Q]], %[[Q]]
// CHECK-NEXT:    %[[T:.*]] = graph.unary <tanh> %[[D]] {graph.precision = "f32"} : tensor<1x4xf32>
// CHECK-NEXT:    %[[E:.*]] = graph.dequantize %[[M]]
// CHECK-NEXT:    func.return %[[R]], %[[E]], %[[T]]
func.func @main(%x: tensor<1x4xf32> {graph.exponent = -3 : i64}) -> (tensor<1xf32>, tensor<1x1xf32>, tensor<1x4xf32>) {
  %a = graph.binary add %x, %x {graph.exponent = -2 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %s = graph.reduce sum %a {axes = array<i64: 1>, graph.exponent = -7 : i64} : (tensor<1x4xf32>) -> tensor<1x1xf32>
  %r = graph.reshape %s : (tensor<1x1xf32>) -> tensor<1xf32>
  %m = graph.binary mul %s, %s {graph.exponent = -7 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %t = graph.unary <tanh> %a {graph.precision = "f32"} : tensor<1x4xf32>
  func.return %r, %m, %t : tensor<1xf32>, tensor<1x1xf32>, tensor<1x4xf32>
}

// -----

// Values in 16 bits, their products with int8 weights, and functions of them: into int8 by a
// table, into 16 bits on floats. A layer in float states the order of its sums.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[X:.*]] = graph.quantize %x : {{.*}}!quant.uniform<i16:f32, 0.0009765625>>
// CHECK:         %[[A:.*]] = graph.matmul %[[X]], {{.*}} {requant = #graph.requant<shift = 5, rounding = half_up, low = 0, high = 32767>} : {{.*}} -> tensor<1x1x!quant.uniform<i16:f32, 0.00048828125>>
// CHECK-NEXT:    %[[I:.*]] = graph.requantize %[[A]] {requant = #graph.requant<shift = 5, rounding = half_up, low = -32768, high = 32767>}
// CHECK-NEXT:    %[[T:.*]] = graph.lookup %[[I]], {{.*}} : tensor<1024xi8> {{.*}} -> tensor<1x1x!quant.uniform<i8:f32, 0.0078125>>
// CHECK-NEXT:    %[[D:.*]] = graph.dequantize %[[A]]
// CHECK-NEXT:    %[[E:.*]] = graph.unary <tanh> %[[D]] : tensor<1x1xf32>
// CHECK-NEXT:    %[[Q:.*]] = graph.quantize %[[E]] : {{.*}}!quant.uniform<i16:f32, 0.000244140625>>
// CHECK-NEXT:    %[[M:.*]] = graph.binary add %[[A]], %[[T]] {rhs_shift = 4 : i64, requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>}
// CHECK:         %[[R:.*]] = graph.dequantize %[[M]]
// CHECK-NEXT:    %[[F:.*]] = graph.matmul %[[R]], {{.*}} {graph.precision = "f32"}
// CHECK-NEXT:    func.return %[[F]]
func.func @main(%x: tensor<1x2xf32> {graph.exponent = -10 : i64, graph.precision = "i16"}) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, -0.5]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %a = graph.matmul %x, %w {activation = #graph.function<relu>, graph.weight_exponent = -6 : i64, graph.exponent = -11 : i64, graph.precision = "i16"} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %t = graph.unary <tanh> %a {graph.exponent = -7 : i64} : tensor<1x1xf32>
  %u = graph.unary <tanh> %a {graph.exponent = -12 : i64, graph.precision = "i16"} : tensor<1x1xf32>
  %m = graph.binary add %a, %t {graph.exponent = -4 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %v = graph.constant dense<0.3> : tensor<1x1xf32> : tensor<1x1xf32>
  %f = graph.matmul %m, %v {graph.precision = "f32"} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  func.return %f : tensor<1x1xf32>
}

// -----

// A sum in 16 bits whose steps operands of 8 bits made coarse: a table and a product read it as it
// is, or as its range of 7 needs in 8 bits. 7 bits off would leave nothing.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[S:.*]] = graph.binary add {{.*}} -> tensor<1x2x!quant.uniform<i16:f32, 0.0625>>
// CHECK-NEXT:    %[[N:.*]] = graph.requantize %[[S]] {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : {{.*}} -> tensor<1x2x!quant.uniform<i8:f32, 0.0625>>
// CHECK-NEXT:    graph.lookup %[[S]], {{.*}} : tensor<1024xi8>
// CHECK:         graph.matmul %[[N]], %[[N]]
func.func @main(%x: tensor<1x2xf32> {graph.exponent = -4 : i64}) -> (tensor<1x2xf32>, tensor<1x1xf32>) {
  %a = graph.binary add %x, %x {graph.exponent = -4 : i64, graph.range = array<f32: -7.0, 7.0>, graph.precision = "i16"} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %t = graph.unary <tanh> %a {graph.exponent = -7 : i64} : tensor<1x2xf32>
  %m = graph.matmul %a, %a {graph.exponent = -1 : i64} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %t, %m : tensor<1x2xf32>, tensor<1x1xf32>
}

// -----

// A pad of another number than zero says that it stays float, or its text would be folded: from 16 to
// 8 bits a tie goes to even here, and up in a rescaling of integers.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[X:.*]] = graph.quantize %x : {{.*}}!quant.uniform<i16:f32, 0.125>>
// CHECK-NEXT:    %[[A:.*]] = graph.requantize %[[X]]
// CHECK-NEXT:    %[[D:.*]] = graph.dequantize %[[A]]
// CHECK-NEXT:    %[[P:.*]] = graph.pad constant %[[D]] {{.*}}graph.precision = "f32"
// CHECK-NEXT:    %[[Q:.*]] = graph.quantize %[[P]] : {{.*}}!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    graph.lookup %[[Q]]
func.func @main(%x: tensor<2xf32> {graph.exponent = -3 : i64, graph.precision = "i16"}) -> tensor<4xf32> {
  %a = graph.unary <relu> %x {graph.exponent = -3 : i64, graph.precision = "i16"} : tensor<2xf32>
  %p = graph.pad constant %a {graph.exponent = -1 : i64, low = array<i64: 1>, high = array<i64: 1>, interior = array<i64: 0>, value = 1.0 : f32} : (tensor<2xf32>) -> tensor<4xf32>
  %t = graph.unary <tanh> %p {graph.exponent = -7 : i64} : tensor<4xf32>
  func.return %t : tensor<4xf32>
}

// -----

// A pad of indices, and one of zeros among floats, say nothing.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:     graph.precision
func.func @main(%x: tensor<2xf32> {graph.exponent = -3 : i64}, %n: tensor<2xi64>) -> (tensor<2xf32>, tensor<4xi64>, tensor<4xf32>) {
  %a = graph.unary <relu> %x {graph.exponent = -3 : i64} : tensor<2xf32>
  %p = graph.pad constant %n {low = array<i64: 1>, high = array<i64: 1>, interior = array<i64: 0>, value = 1 : i64} : (tensor<2xi64>) -> tensor<4xi64>
  %f = graph.cast %n : (tensor<2xi64>) -> tensor<2xf32>
  %z = graph.pad constant %f {graph.exponent = 0 : i64, low = array<i64: 1>, high = array<i64: 1>, interior = array<i64: 0>, value = 0.0 : f32} : (tensor<2xf32>) -> tensor<4xf32>
  func.return %a, %p, %z : tensor<2xf32>, tensor<4xi64>, tensor<4xf32>
}
