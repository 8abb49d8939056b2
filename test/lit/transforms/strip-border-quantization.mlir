// RUN: ceras-opt %s --strip-border-quantization --split-input-file | filecheck %s

// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[X:.*]]: tensor<4x!quant.uniform<i8:f32, 0.5>> {graph.name = "x"})
// CHECK-SAME:    -> (tensor<4x!quant.uniform<i8:f32, 1.0>> {graph.name = "y"})
// CHECK-NEXT:    %[[Y:.*]] = graph.requantize %[[X]]
// CHECK-NEXT:    func.return %[[Y]]
func.func @main(%x: tensor<4xf32> {graph.name = "x"}) -> (tensor<4xf32> {graph.name = "y"}) {
  %0 = graph.quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.requantize %0 {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 1.0>>
  %2 = graph.dequantize %1 : (tensor<4x!quant.uniform<i8:f32, 1.0>>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// -----

// The argument is read as a float too, and the result never was an integer.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    graph.quantize
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
  %2 = graph.binary "sub" %x, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// -----

// Two readers want two scales.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    tensor<4xf32>) -> (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.25>>)
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.25>>
  %2 = graph.dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
  %3 = graph.dequantize %1 : (tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4xf32>
  func.return %2, %3 : tensor<4xf32>, tensor<4xf32>
}
