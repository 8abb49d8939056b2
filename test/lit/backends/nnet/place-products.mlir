// RUN: ceras-opt %s --place=target=nnet --split-input-file | filecheck %s
// RUN: ceras-opt %s --place="target=nnet board=ceras_zcu104" --split-input-file | filecheck %s --check-prefix=BOARD

// The array takes products of two activations; what is packed needs no device of its own.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.matmul %q, %k {{.*}}mem.device = #mem.device<fpga>
// CHECK:         graph.transpose {{.*}}mem.device = #mem.device<fpga>
// CHECK:         graph.matmul %s, %t {{.*}}mem.device = #mem.device<fpga>
// With a board the time that the CPU packs counts, and the CPU transposes what it packs then.
// BOARD-LABEL: func.func @main(
// BOARD:         graph.matmul %q, %k {{.*}}mem.device = #mem.device<fpga>
// BOARD:         graph.transpose {{.*}}mem.device = #mem.device<cpu>
// BOARD:         graph.matmul %s, %t {{.*}}mem.device = #mem.device<fpga>
func.func @main(%q: tensor<197x64x!quant.uniform<i8:f32, 0.5>>, %k: tensor<197x64x!quant.uniform<i8:f32, 0.5>>, %v: tensor<197x64x!quant.uniform<i8:f32, 0.5>>) -> tensor<197x64x!quant.uniform<i8:f32, 0.5>> {
  %s = graph.matmul %q, %k {requant = #graph.requant<shift = 9, rounding = half_up, low = -128, high = 127>} : (tensor<197x64x!quant.uniform<i8:f32, 0.5>>, tensor<197x64x!quant.uniform<i8:f32, 0.5>>) -> tensor<197x197x!quant.uniform<i8:f32, 0.5>>
  %t = graph.transpose %v {permutation = array<i64: 1, 0>} : (tensor<197x64x!quant.uniform<i8:f32, 0.5>>) -> tensor<64x197x!quant.uniform<i8:f32, 0.5>>
  %y = graph.matmul %s, %t {requant = #graph.requant<shift = 9, rounding = half_up, low = -128, high = 127>} : (tensor<197x197x!quant.uniform<i8:f32, 0.5>>, tensor<64x197x!quant.uniform<i8:f32, 0.5>>) -> tensor<197x64x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<197x64x!quant.uniform<i8:f32, 0.5>>
}

// -----

// Weights have a zero point, or are of a convolution: the reason says so.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.matmul {{.*}}mem.device = #mem.device<cpu>, mem.reason = "the FPGA requires weights without zero point, got 3"
// CHECK:         graph.conv2d {{.*}}mem.device = #mem.device<cpu>, mem.reason = "the FPGA requires constant weights of a convolution"
func.func @main(%q: tensor<4x8x!quant.uniform<i8:f32, 0.5>>, %k: tensor<4x8x!quant.uniform<i8:f32, 0.5:3>>, %x: tensor<1x4x4x8x!quant.uniform<i8:f32, 0.5>>, %w: tensor<4x1x1x8x!quant.uniform<i8:f32, 0.5>>) -> (tensor<4x4x!quant.uniform<i8:f32, 0.5>>, tensor<1x4x4x4x!quant.uniform<i8:f32, 0.5>>) {
  %s = graph.matmul %q, %k {requant = #graph.requant<shift = 9, rounding = half_up, low = -128, high = 127>} : (tensor<4x8x!quant.uniform<i8:f32, 0.5>>, tensor<4x8x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {requant = #graph.requant<shift = 9, rounding = half_up, low = -128, high = 127>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x4x4x8x!quant.uniform<i8:f32, 0.5>>, tensor<4x1x1x8x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4x4x4x!quant.uniform<i8:f32, 0.5>>
  func.return %s, %y : tensor<4x4x!quant.uniform<i8:f32, 0.5>>, tensor<1x4x4x4x!quant.uniform<i8:f32, 0.5>>
}
