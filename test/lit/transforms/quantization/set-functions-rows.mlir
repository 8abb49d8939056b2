// RUN: ceras-opt %s --set-functions="rules=rows rows=float" | filecheck %s --check-prefix=FLOAT
// RUN: ceras-opt %s --set-functions="rules=rows" | filecheck %s --check-prefix=INTEGER
// RUN: %if onnx %{ ceras-opt %s --quantize="target=onnx tail=int8 recipe=none" 2>/dev/null | filecheck %s --check-prefix=ONNX %}
// RUN: ceras-opt %s --quantize="tail=int8 recipe=none" 2>/dev/null | filecheck %s --check-prefix=FORMS

// FLOAT: graph.softmax {{.*}}graph.precision = "f32"
// FLOAT: graph.normalize {{.*}}graph.precision = "f32"
// INTEGER-NOT: graph.precision
// ONNX: graph.softmax
// ONNX: graph.normalize

// The table of a softmax ends where exponentials vanish; a scale has 16 bits.
// FORMS:     graph.quantize
// FORMS-NOT: graph.dequantize
// FORMS:     graph.integer_softmax {{.*}} table {{.*}} : tensor<179x!quant.uniform<i32:f32, 3.0517578125e-05>> {axis = 1 : i64, requant = #graph.requant<shift = 24, rounding = half_up, low = -128, high = 127>} : tensor<2x4x!quant.uniform<i8:f32, 0.0625>> -> tensor<2x4x!quant.uniform<i8:f32, 0.0078125>>
// FORMS:     graph.integer_normalize
// FORMS-SAME: tensor<4x!quant.uniform<i16:f32, 6.103515625e-05>>
// FORMS:     graph.dequantize
func.func @main(%x: tensor<2x4xf32> {graph.name = "x", graph.exponent = -4 : i64}) -> (tensor<2x4xf32> {graph.name = "y"}) {
  %s = graph.constant dense<1.5> : tensor<4xf32> : tensor<4xf32>
  %0 = graph.softmax %x {axis = 1 : i64, graph.exponent = -7 : i64} : tensor<2x4xf32>
  %1 = graph.normalize %0 scale %s : tensor<4xf32> {epsilon = 1.000000e-05 : f32, centred = true, graph.exponent = -6 : i64} : tensor<2x4xf32> -> tensor<2x4xf32>
  func.return %1 : tensor<2x4xf32>
}
