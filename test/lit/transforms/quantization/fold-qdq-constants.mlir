// RUN: ceras-opt %s --fold-qdq="rules=constants" --split-input-file | filecheck %s

func.func @main() -> (tensor<2xf32>, tensor<2x!quant.uniform<i8:f32, 0.5:1>>) {
  %c = graph.constant dense<[3, -1]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32:0, {0.5:1, 0.25}>>
  %r = graph.dequantize %c : (tensor<2x!quant.uniform<i8:f32:0, {0.5:1, 0.25}>>) -> tensor<2xf32>
  %f = graph.constant dense<[0.25, 1000.0]> : tensor<2xf32> : tensor<2xf32>
  %q = graph.quantize %f : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:1>>
  func.return %r, %q : tensor<2xf32>, tensor<2x!quant.uniform<i8:f32, 0.5:1>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.constant dense<[1.000000e+00, -2.500000e-01]> : tensor<2xf32> : tensor<2xf32>
// CHECK-NEXT: %{{.*}} = graph.constant dense<[1, 127]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32, 0.5:1>>
// CHECK-NEXT: func.return %{{.*}}, %{{.*}} : tensor<2xf32>, tensor<2x!quant.uniform<i8:f32, 0.5:1>>
