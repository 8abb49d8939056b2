// RUN: ceras-opt %s --split-input-file -p 'split-wide{rules=inputs residual-spread=1}' | filecheck %s
// RUN: ceras-opt %s --split-input-file --split-wide="rules=inputs" | filecheck %s --check-prefix=ALIKE

// The share of the lower byte, then the upper byte, to which it is added.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[U:.*]] = graph.requantize %x {requant = #graph.requant<shift = 8, {{.*}}<i8:f32, 64.0>>
// CHECK-NEXT:    %[[L:.*]] = graph.binary sub %x, %[[U]] {rhs_shift = 8 : i64, {{.*}}<i8:f32, 0.25>>
// CHECK:         %[[S:.*]] = graph.matmul %[[L]]
// CHECK:         graph.constant dense<[-4, 391]>
// CHECK:         graph.matmul %[[U]], {{.*}} residual %[[S]]{{.*}} zero_point = 3, {{.*}}residual_shift = array<i64: 0, 1>
// CHECK-NOT:     graph.
// CHECK:         func.return
// ALIKE-LABEL: func.func @main(
// ALIKE-NOT:     graph.requantize
func.func @main(%x: tensor<1x2x!quant.uniform<i16:f32, 0.25>>) -> tensor<1x2x!quant.uniform<i8:f32, 64.0:3>> {
  %w = graph.constant dense<[[1, -127], [127, 127]]> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32:0, {0.125, 0.0625}>>
  %b = graph.constant dense<[-1000, 100000]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32:0, {0.03125, 0.015625}>>
  %y = graph.matmul %x, %w bias %b : tensor<2x!quant.uniform<i32:f32:0, {0.03125, 0.015625}>> {requant = #graph.requant<multiplier = [2, 1], shift = 12, rounding = half_up, zero_point = 3, low = -128, high = 127>} : (tensor<1x2x!quant.uniform<i16:f32, 0.25>>, tensor<2x2x!quant.uniform<i8:f32:0, {0.125, 0.0625}>>) -> tensor<1x2x!quant.uniform<i8:f32, 64.0:3>>
  func.return %y : tensor<1x2x!quant.uniform<i8:f32, 64.0:3>>
}

// -----

// The bytes of two layers are read as they are, and nothing joins them any more.
// CHECK-LABEL: func.func @main(%lower
// CHECK-NOT:     graph.requantize
// CHECK-NOT:     graph.binary
// CHECK:         %[[S:.*]] = graph.matmul %lower
// CHECK:         %[[W:.*]] = graph.constant dense<-100>
// CHECK:         graph.matmul %upper, %[[W]] residual %[[S]]
// ALIKE-LABEL: func.func @main(%lower
// ALIKE-NOT:     graph.binary
func.func @main(%lower: tensor<1x1x!quant.uniform<i8:f32, 0.25>>, %upper: tensor<1x1x!quant.uniform<i8:f32, 64.0>>) -> tensor<1x1x!quant.uniform<i8:f32, 64.0>> {
  %x = graph.binary sub %lower, %upper {rhs_shift = 8 : i64, requant = #graph.requant<shift = 0, rounding = half_up, low = -32640, high = 32767>} : (tensor<1x1x!quant.uniform<i8:f32, 0.25>>, tensor<1x1x!quant.uniform<i8:f32, 64.0>>) -> tensor<1x1x!quant.uniform<i16:f32, 0.25>>
  %w = graph.constant dense<100> : tensor<1x1xi8> : tensor<1x1x!quant.uniform<i8:f32, 0.0625>>
  %y = graph.matmul %x, %w {requant = #graph.requant<shift = 12, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!quant.uniform<i16:f32, 0.25>>, tensor<1x1x!quant.uniform<i8:f32, 0.0625>>) -> tensor<1x1x!quant.uniform<i8:f32, 64.0>>
  func.return %y : tensor<1x1x!quant.uniform<i8:f32, 64.0>>
}

// -----

// What clips stays joined; so does what a share in 8 bits would be coarser than, here with shift 3.
// CHECK-LABEL: func.func @main(%lower
// CHECK:         graph.binary sub {{.*}}low = 0
// CHECK:         graph.requantize
// CHECK:         graph.matmul {{.*}}shift = 3,
// ALIKE-LABEL: func.func @main(%lower
// ALIKE:         graph.requantize
func.func @main(%lower: tensor<1x1x!quant.uniform<i8:f32, 0.25>>, %upper: tensor<1x1x!quant.uniform<i8:f32, 64.0>>) -> (tensor<1x1x!quant.uniform<i8:f32, 64.0>>, tensor<1x1x!quant.uniform<i8:f32, 0.125>>) {
  %x = graph.binary sub %lower, %upper {rhs_shift = 8 : i64, requant = #graph.requant<shift = 0, rounding = half_up, low = 0, high = 32767>} : (tensor<1x1x!quant.uniform<i8:f32, 0.25>>, tensor<1x1x!quant.uniform<i8:f32, 64.0>>) -> tensor<1x1x!quant.uniform<i16:f32, 0.25>>
  %w = graph.constant dense<100> : tensor<1x1xi8> : tensor<1x1x!quant.uniform<i8:f32, 0.0625>>
  %y = graph.matmul %x, %w {requant = #graph.requant<shift = 12, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!quant.uniform<i16:f32, 0.25>>, tensor<1x1x!quant.uniform<i8:f32, 0.0625>>) -> tensor<1x1x!quant.uniform<i8:f32, 64.0>>
  %z = graph.matmul %x, %w {requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<1x1x!quant.uniform<i16:f32, 0.25>>, tensor<1x1x!quant.uniform<i8:f32, 0.0625>>) -> tensor<1x1x!quant.uniform<i8:f32, 0.125>>
  func.return %y, %z : tensor<1x1x!quant.uniform<i8:f32, 64.0>>, tensor<1x1x!quant.uniform<i8:f32, 0.125>>
}
