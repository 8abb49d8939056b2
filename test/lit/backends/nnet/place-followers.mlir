// RUN: ceras-opt %s --place=target=nnet --split-input-file | filecheck %s

// What is moved goes where it comes from or goes to, through whatever else is only moved.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    graph.transpose {{.*}}mem.device = #mem.device<fpga>
// CHECK-NEXT:    graph.reshape {{.*}}mem.device = #mem.device<fpga>
// CHECK-NEXT:    graph.binary add {{.*}}mem.device = #mem.device<fpga>
func.func @main(%x: tensor<4x6x!quant.uniform<i8:f32, 0.5>>) -> tensor<24x!quant.uniform<i8:f32, 0.5>> {
  %t = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x6x!quant.uniform<i8:f32, 0.5>>) -> tensor<6x4x!quant.uniform<i8:f32, 0.5>>
  %r = graph.reshape %t : (tensor<6x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<24x!quant.uniform<i8:f32, 0.5>>
  %y = graph.binary add %r, %r {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<24x!quant.uniform<i8:f32, 0.5>>, tensor<24x!quant.uniform<i8:f32, 0.5>>) -> tensor<24x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<24x!quant.uniform<i8:f32, 0.5>>
}

// -----

// CHECK:         graph.transpose {{.*}}mem.device = #mem.device<cpu>, mem.reason = "no circuit of the FPGA computes the operands or uses the result"
// CHECK-NEXT:    graph.dequantize {{.*}}mem.device = #mem.device<cpu>
func.func @main(%x: tensor<4x6x!quant.uniform<i8:f32, 0.5>>) -> tensor<6x4xf32> {
  %t = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x6x!quant.uniform<i8:f32, 0.5>>) -> tensor<6x4x!quant.uniform<i8:f32, 0.5>>
  %y = graph.dequantize %t : (tensor<6x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<6x4xf32>
  func.return %y : tensor<6x4xf32>
}
