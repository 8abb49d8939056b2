// RUN: ceras-opt %s --snap-scales --split-input-file 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// NOTE: snap-scales: note: 3 scales moved to powers of two; steps are coarser by 5.6 dB on average; most: graph.dequantize at line {{[0-9]+}} 10.5 dB, graph.unary at line {{[0-9]+}} 4.4 dB, graph.matmul at line {{[0-9]+}} 1.9 dB

func.func @main(%x: tensor<1x2x!quant.uniform<i8:f32, 0.3:-128>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.3:4>> {
  %w = graph.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  %xr = graph.dequantize %x : (tensor<1x2x!quant.uniform<i8:f32, 0.3:-128>>) -> tensor<1x2xf32>
  %wr = graph.dequantize %w : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2xf32>
  %y = graph.matmul %xr, %wr : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %q = graph.quantize %y : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.1:4>>
  %d = graph.dequantize %q : (tensor<1x2x!quant.uniform<i8:f32, 0.1:4>>) -> tensor<1x2xf32>
  %z = graph.unary <relu> %d : tensor<1x2xf32>
  %p = graph.quantize %z : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>
  func.return %p : tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.dequantize %{{.*}} {graph.exponent = 0 : i64} : (tensor<1x2x!quant.uniform<i8:f32, 0.3:-128>>) -> tensor<1x2xf32>
// CHECK-NEXT: %{{.*}} = graph.constant dense<{{\[\[}}5.000000e-01, 1.000000e+00], [1.500000e+00, 2.000000e+00]]> : tensor<2x2xf32> : tensor<2x2xf32>
// CHECK-NEXT: %{{.*}} = graph.matmul %{{.*}}, %{{.*}} {graph.exponent = -3 : i64} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT: %{{.*}} = graph.unary <relu> %{{.*}} {graph.exponent = -1 : i64} : tensor<1x2xf32>
// CHECK-NEXT: %{{.*}} = graph.quantize %{{.*}} : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>
// CHECK-NEXT: func.return %{{.*}} : tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>

// -----

// No Q/DQ, nothing to snap.
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = graph.unary <relu> %x : tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.unary <relu> %{{.*}} : tensor<2xf32>
// CHECK-NEXT: func.return %{{.*}} : tensor<2xf32>
