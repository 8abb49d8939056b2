// RUN: ceras-opt %s --tabulate --split-input-file | filecheck %s
// RUN: ceras-opt %s --tabulate --tabulate --split-input-file | filecheck %s

// A requantization of int8: entry 128 is what becomes of 0.
// CHECK-LABEL: func.func @requantize(
// CHECK-NEXT:    graph.lookup %{{.*}}, dense<"0x{{[0-9A-F]+}}"> : tensor<256xi8> : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x!quant.uniform<i8:f32, 1.0:-2>>
// Of 16 bits there is none.
// CHECK-NEXT:    graph.requantize
func.func @requantize(%x: tensor<4x!quant.uniform<i8:f32, 0.5:3>>, %w: tensor<4x!quant.uniform<i16:f32, 0.5>>) -> (tensor<4x!quant.uniform<i8:f32, 1.0:-2>>, tensor<4x!quant.uniform<i8:f32, 1.0>>) {
  %y = graph.requantize %x {requant = #graph.requant<shift = 1, rounding = half_even, zero_point = -2, low = -128, high = 127>} : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x!quant.uniform<i8:f32, 1.0:-2>>
  %z = graph.requantize %w {requant = #graph.requant<shift = 1, rounding = half_even, low = -128, high = 127>} : (tensor<4x!quant.uniform<i16:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 1.0>>
  func.return %y, %z : tensor<4x!quant.uniform<i8:f32, 1.0:-2>>, tensor<4x!quant.uniform<i8:f32, 1.0>>
}

// -----

// Floats behind a product of the FPGA, with the function that alone reads them.
// CHECK-LABEL: func.func @tail(
// CHECK:         %[[M:.*]] = graph.matmul
// CHECK-NEXT:    %[[Y:.*]] = graph.lookup %[[M]], dense<"0x{{[0-9A-F]+}}"> : tensor<256xf32> {graph.function = #graph.function<sigmoid>} : (tensor<3x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2xf32>
// What the CPU has anyway it dequantizes.
// CHECK-NEXT:    %[[Z:.*]] = graph.dequantize
// CHECK-NEXT:    func.return %[[Y]], %[[Z]]
func.func @tail(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>) -> (tensor<3x2xf32>, tensor<3x4xf32>) {
  %w = graph.constant dense<1> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  %m = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  %d = graph.dequantize %m : (tensor<3x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2xf32>
  %y = graph.unary <sigmoid> %d : tensor<3x2xf32>
  %z = graph.dequantize %x : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x4xf32>
  func.return %y, %z : tensor<3x2xf32>, tensor<3x4xf32>
}
