// RUN: ceras-opt %s --split-input-file -p 'split-wide{rules=results residual-spread=1}' | filecheck %s
// RUN: ceras-opt %s --split-input-file --split-wide="rules=results" | filecheck %s --check-prefix=ALIKE

// Upper byte, negated, in steps 2^8 as coarse; then the lower one, to which it is added. Rows of
// weights at different scales need a residual that is shifted by channel.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.constant dense<{{\[\[}}-1, 127], [-127, -127]]>
// CHECK-NEXT:    graph.constant dense<[-102, 997]>
// CHECK-NEXT:    %[[U:.*]] = graph.matmul {{.*}}shift = 10, {{.*}}low = -128, high = 127>} {{.*}}<i8:f32, 128.0>
// CHECK-NEXT:    %[[L:.*]] = graph.matmul {{.*}} residual %[[U]] {{.*}}shift = 2, {{.*}}residual_shift = array<i64: 9, 10>
// CHECK-NEXT:    graph.binary sub %[[L]], %[[U]] {rhs_shift = 8 : i64, {{.*}} zero_point = 3, low = -32637, high = 32767
// ALIKE-LABEL: func.func @main(
// ALIKE-NOT:     graph.binary
func.func @main(%x: tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i16:f32, 0.5:3>> {
  %w = graph.constant dense<[[1, -127], [127, 127]]> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  %b = graph.constant dense<[100, -1000]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.125}>>
  %y = graph.matmul %x, %w bias %b : tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.125}>> {requant = #graph.requant<multiplier = [2, 1], shift = 2, rounding = half_up, zero_point = 3, low = -32768, high = 32767>} : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<1x2x!quant.uniform<i16:f32, 0.5:3>>
  func.return %y : tensor<1x2x!quant.uniform<i16:f32, 0.5:3>>
}


// -----

// Multipliers stay.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:     graph.binary
// ALIKE-LABEL: func.func @main(
// ALIKE-NOT:     graph.binary
func.func @main(%x: tensor<1x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x!quant.uniform<i16:f32, 0.5>> {
  %w = graph.constant dense<5> : tensor<1x1xi8> : tensor<1x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.matmul %x, %w {requant = #graph.requant<multiplier = 3, shift = 2, rounding = half_up, low = -32768, high = 32767>} : (tensor<1x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x!quant.uniform<i16:f32, 0.5>>
  func.return %y : tensor<1x1x!quant.uniform<i16:f32, 0.5>>
}

// -----

// A residual is added in 16 bits, to half as many steps; bounds and zero point are of the sum.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[U:.*]] = graph.matmul {{.*}}shift = 11, {{.*}}<i8:f32, 256.0>
// CHECK-NEXT:    %[[L:.*]] = graph.matmul {{.*}} residual %[[U]] {{.*}}residual_shift = 11 : i64, {{.*}}shift = 3,
// CHECK-NEXT:    %[[J:.*]] = graph.binary sub %[[L]], %[[U]] {rhs_shift = 8 : i64, requant = #graph.requant<shift = 0, rounding = half_up, low = -32640, high = 32767>}
// CHECK-NEXT:    graph.binary add %[[J]], %r {lhs_shift = 1 : i64, rhs_shift = 4 : i64, requant = #graph.requant<shift = 0, rounding = half_up, zero_point = 3, low = 3, high = 32767>}
// ALIKE-LABEL: func.func @main(
// ALIKE:         graph.binary add
func.func @main(%x: tensor<1x1x!quant.uniform<i8:f32, 0.5>>, %r: tensor<1x1x!quant.uniform<i8:f32, 8.0:1>>) -> tensor<1x1x!quant.uniform<i16:f32, 0.5:3>> {
  %w = graph.constant dense<5> : tensor<1x1xi8> : tensor<1x1x!quant.uniform<i8:f32, 0.25>>
  %y = graph.matmul %x, %w residual %r : tensor<1x1x!quant.uniform<i8:f32, 8.0:1>> {residual_shift = 6 : i64, requant = #graph.requant<shift = 2, rounding = half_up, zero_point = 3, low = 3, high = 32767>} : (tensor<1x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x1x!quant.uniform<i8:f32, 0.25>>) -> tensor<1x1x!quant.uniform<i16:f32, 0.5:3>>
  func.return %y : tensor<1x1x!quant.uniform<i16:f32, 0.5:3>>
}

// -----

// The mask of a pruned layer is of both products, and not of what joins their bytes.
// ALIKE-LABEL: func.func @main(
// CHECK-LABEL: func.func @main(
// CHECK:         graph.matmul {{.*}}sparse.mask
// CHECK:         graph.matmul {{.*}}sparse.mask
// CHECK-NOT:     sparse.mask
// CHECK:         graph.binary sub
func.func @main(%x: tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x!quant.uniform<i16:f32, 0.5>> {
  %w = graph.constant dense<[[0, 5]]> : tensor<1x2xi8> : tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  %y = graph.matmul %x, %w {requant = #graph.requant<shift = 1, rounding = half_up, low = -32768, high = 32767>, sparse.mask = #sparse.mask<1 of [1, 2], "0x02">} : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x!quant.uniform<i16:f32, 0.5>>
  func.return %y : tensor<1x1x!quant.uniform<i16:f32, 0.5>>
}
