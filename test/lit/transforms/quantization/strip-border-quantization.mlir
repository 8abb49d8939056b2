// RUN: ceras-opt %s --strip-border-quantization --split-input-file 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// NOTE: strip-border-quantization: note: output 'output0' remains float, because 'rest' is computed in float

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
  %2 = graph.binary sub %x, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("rest")
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

// -----

// An input that fit-inputs divides by 1/4: the same integers in steps a quarter as long, by weights in
// steps four times as long. What only moves elements is of the input's type.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[X:.*]]: tensor<2x1x!quant.uniform<i8:f32, 0.125:3>>)
// CHECK-NOT:     graph.binary
// CHECK:         %[[M:.*]] = graph.reshape %[[X]] : {{.*}} -> tensor<1x2x!quant.uniform<i8:f32, 0.125:3>>
// CHECK:         %[[W:.*]] = graph.constant dense<{{.*}}> : {{.*}} tensor<1x2x!quant.uniform<i8:f32, 1.0>>
// CHECK:         graph.matmul %[[M]], %[[W]]
func.func @main(%x: tensor<2x1xf32>) -> tensor<1x1x!quant.uniform<i8:f32, 1.0>> {
  %c = graph.constant dense<4.0> : tensor<f32> : tensor<f32>
  %0 = graph.binary mul %x, %c {graph.precision = "f32"} : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %1 = graph.quantize %0 : (tensor<2x1xf32>) -> tensor<2x1x!quant.uniform<i8:f32, 0.5:3>>
  %2 = graph.reshape %1 : (tensor<2x1x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5:3>>
  %w = graph.constant dense<[[1, 2]]> : tensor<1x2xi8> : tensor<1x2x!quant.uniform<i8:f32, 0.25>>
  %3 = graph.matmul %2, %w {requant = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<1x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<1x1x!quant.uniform<i8:f32, 1.0>>
  func.return %3 : tensor<1x1x!quant.uniform<i8:f32, 1.0>>
}
