// RUN: ceras-opt %s --quantize-graph="rules=float-sums" --split-input-file | filecheck %s
// RUN: ceras-opt %s --quantize-graph="rules=float-sums" --quantize-graph="rules=float-sums" --split-input-file | filecheck %s
// RUN: ceras-opt %s -p "quantize" --split-input-file | filecheck %s --check-prefix=PIPELINE

// A float layer between quantized values, as in a Q/DQ network of which some layers are float.
// CHECK-LABEL: func.func @main
// CHECK: graph.conv2d {{.*}} {ordered}
// CHECK: graph.matmul {{.*}} {ordered}
// PIPELINE-LABEL: func.func @main
// PIPELINE: graph.conv2d {{.*}} {ordered}
// PIPELINE: graph.matmul {{.*}} {ordered}
func.func @main(%q: tensor<1x1x1x2x!quant.uniform<i8:f32, 0.5>>, %m: tensor<1x2xf32>) -> (tensor<1x1x1x1x!quant.uniform<i8:f32, 0.25>>, tensor<1x1xf32>) {
  %w = graph.constant dense<[[[[0.3, 0.7]]]]> : tensor<1x1x1x2xf32> : tensor<1x1x1x2xf32>
  %v = graph.constant dense<[[0.3, 0.7]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %x = graph.dequantize %q : (tensor<1x1x1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x1x2xf32>
  %y = graph.conv2d %x, %w : (tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x1x1xf32>
  %r = graph.quantize %y : (tensor<1x1x1x1xf32>) -> tensor<1x1x1x1x!quant.uniform<i8:f32, 0.25>>
  %z = graph.matmul %m, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %r, %z : tensor<1x1x1x1x!quant.uniform<i8:f32, 0.25>>, tensor<1x1xf32>
}

// -----

// Integer sums are exact in any order.
// CHECK-LABEL: func.func @main
// CHECK: graph.matmul
// CHECK-NOT: ordered
func.func @main(%q: tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<[[3, 7]]> : tensor<1x2xi8> : tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  %y = graph.matmul %q, %w {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

// Where nothing could be quantized, targets still compute the same bits.
// CHECK-LABEL: func.func @main
// CHECK: graph.matmul {{.*}} {ordered}
func.func @main(%m: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %v = graph.constant dense<[[0.3, 0.7]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %z = graph.matmul %m, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %z : tensor<1x1xf32>
}
