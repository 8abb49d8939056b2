// RUN: ceras-opt %s --fold-affine="rules=biases" --split-input-file | filecheck %s

func.func @main(%x: tensor<1x2xf32>, %w: tensor<2x2xf32>) -> tensor<1x2xf32> {
  %c = graph.constant dense<[7, -7]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.5>>
  %b = graph.dequantize %c : (tensor<2x!quant.uniform<i32:f32, 0.5>>) -> tensor<2xf32>
  %m = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %s = graph.binary add %m, %b : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  func.return %s : tensor<1x2xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.constant dense<[7, -7]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.5>>
// CHECK-NEXT: %{{.*}} = graph.dequantize %{{.*}} : (tensor<2x!quant.uniform<i32:f32, 0.5>>) -> tensor<2xf32>
// CHECK-NEXT: %{{.*}} = graph.matmul %{{.*}}, %{{.*}} bias %{{.*}} : tensor<2xf32> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT: func.return %{{.*}} : tensor<1x2xf32>

// -----

// A float constant is left to fold-affine{batch-norms}, and a product that is read twice stays.
func.func @main(%x: tensor<1x2xf32>, %w: tensor<2x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>) {
  %c = graph.constant dense<[7, -7]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.5>>
  %b = graph.dequantize %c : (tensor<2x!quant.uniform<i32:f32, 0.5>>) -> tensor<2xf32>
  %f = graph.constant dense<1.0> : tensor<2xf32> : tensor<2xf32>
  %m = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %n = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %s = graph.binary add %m, %b : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %t = graph.binary add %n, %f : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  func.return %m, %s, %t : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.constant dense<[7, -7]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.5>>
// CHECK-NEXT: %{{.*}} = graph.dequantize %{{.*}} : (tensor<2x!quant.uniform<i32:f32, 0.5>>) -> tensor<2xf32>
// CHECK-NEXT: %{{.*}} = graph.constant dense<1.000000e+00> : tensor<2xf32> : tensor<2xf32>
// CHECK-NEXT: %{{.*}} = graph.matmul %{{.*}}, %{{.*}} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT: %{{.*}} = graph.matmul %{{.*}}, %{{.*}} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT: %{{.*}} = graph.binary add %{{.*}}, %{{.*}} : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT: %{{.*}} = graph.binary add %{{.*}}, %{{.*}} : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT: func.return %{{.*}}, %{{.*}}, %{{.*}} : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>

// -----

// A quantized layer adds integers, and here its table makes floats behind that.
func.func @main(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2xf32> {
  %c = graph.constant dense<[7, -7]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.5>>
  %b = graph.dequantize %c : (tensor<2x!quant.uniform<i32:f32, 0.5>>) -> tensor<2xf32>
  %m = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, table = dense<2.0> : tensor<256xf32>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2xf32>
  %s = graph.binary add %m, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %s : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @main
// CHECK: %[[M:.*]] = graph.matmul
// CHECK-NEXT: graph.binary add %[[M]]
