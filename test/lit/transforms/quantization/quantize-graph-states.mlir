// RUN: ceras-opt %s --quantize-graph="rules=states" --split-input-file | filecheck %s

// Both ends of the state are stored in one type; other ends stay as they are.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[X:.*]]: tensor<4xf32> {graph.name = "x"},
// CHECK-SAME:    %[[H:.*]]: tensor<4x!quant.uniform<i8:f32, 0.5>> {graph.name = "h", graph.state = "hn"})
// CHECK-SAME:    -> (tensor<4x!quant.uniform<i8:f32, 0.5>> {graph.name = "hn"})
// CHECK-NEXT:    %[[Q:.*]] = graph.quantize %[[X]]
// CHECK-NEXT:    %[[S:.*]] = graph.concat %[[Q]], %[[H]]
// CHECK-NEXT:    %[[T:.*]] = graph.slice %[[S]]
// CHECK-NEXT:    func.return %[[T]]
func.func @main(%x: tensor<4xf32> {graph.name = "x"}, %h: tensor<4xf32> {graph.name = "h", graph.state = "hn"}) -> (tensor<4xf32> {graph.name = "hn"}) {
  %0 = graph.quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.quantize %h : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %2 = graph.concat %0, %1 {axis = 0 : i64} : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<8x!quant.uniform<i8:f32, 0.5>>
  %s = graph.slice %2 {starts = array<i64: 4>, strides = array<i64: 1>} : (tensor<8x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %3 = graph.dequantize %s : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
  func.return %3 : tensor<4xf32>
}

// -----

// The scales differ: what is kept is a float.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    tensor<4xf32> {graph.name = "h", graph.state = "hn"}) -> (tensor<4xf32> {graph.name = "hn"})
// CHECK-NEXT:    graph.quantize
func.func @main(%h: tensor<4xf32> {graph.name = "h", graph.state = "hn"}) -> (tensor<4xf32> {graph.name = "hn"}) {
  %0 = graph.quantize %h : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.requantize %0 {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 1.0>>
  %2 = graph.dequantize %1 : (tensor<4x!quant.uniform<i8:f32, 1.0>>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// -----

// A float reads the state too.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    tensor<4xf32> {graph.name = "h", graph.state = "hn"}) ->
func.func @main(%h: tensor<4xf32> {graph.name = "h", graph.state = "hn"}) -> (tensor<4xf32> {graph.name = "y"}, tensor<4xf32> {graph.name = "hn"}) {
  %0 = graph.quantize %h : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
  %2 = graph.binary sub %h, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2, %1 : tensor<4xf32>, tensor<4xf32>
}
