// RUN: ceras-opt %s --convert-graph-to-linalg --mlir-print-debuginfo | filecheck %s

// The zero point of the input is the border, and a constant per channel that is added to the sums.
// CHECK-LABEL: func.func @main
// CHECK-SAME: attributes {ceras = {inputs = [{name = "x", type = "tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>>"}]
func.func @main(%x: tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>> {graph.name = "x"}) -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25>> {
  %w = graph.constant dense<[[[[1, 2]]], [[[3, -4]]]]> : tensor<2x1x1x2xi8> : tensor<2x1x1x2x!quant.uniform<i8:f32, 0.25>>
  // CHECK: [[B:%.*]] = arith.constant 3 : i8
  // CHECK: tensor.pad
  // CHECK: tensor.yield [[B]]
  // CHECK: linalg.conv_2d_nhwc_fhwc {{.*}} loc("conv"
  // CHECK: [[Z:%.*]] = arith.constant dense<[-9, 3]> : tensor<2xi32>
  // CHECK: linalg.generic
  // CHECK-SAME: [[Z]]
  // CHECK-SAME: attrs = {ceras = {operation = "graph.conv2d"
  // CHECK-SAME: requant = "#graph.requant<shift = 3, rounding = half_up, low = -3, high = 100>"
  // CHECK: arith.addi {{.*}} : i32
  // CHECK: arith.extsi {{.*}} : i32 to i64
  // CHECK: arith.shrsi
  // CHECK: arith.maxsi
  // CHECK: arith.minsi
  // CHECK: arith.trunci {{.*}} : i64 to i8
  %c = graph.conv2d %x, %w {padding = array<i64: 1, 1, 0, 0>, strides = array<i64: 1, 1>, requant = #graph.requant<shift = 3, rounding = half_up, low = -3, high = 100>} : (tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x1x1x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<1x3x3x2x!quant.uniform<i8:f32, 0.25>> loc("conv")
  %s = graph.slice %c {starts = array<i64: 0, 1, 1, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<1x3x3x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25>>
  // CHECK: tensor.extract_slice
  func.return %s : tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25>>
}
