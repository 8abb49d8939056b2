// RUN: ceras-opt %s --snap-scales --split-input-file 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// NOTE: snap-scales: note: 3 scales changed to powers of two; steps are coarser by 5.6 dB on average; most: graph.dequantize at line {{[0-9]+}} 10.5 dB, graph.unary at line {{[0-9]+}} 4.4 dB, graph.matmul at line {{[0-9]+}} 1.9 dB

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
// CHECK-NEXT: %{{.*}} = graph.matmul %{{.*}}, %{{.*}} {graph.exponent = -3 : i64, activation = #graph.function<clip, -13.1{{.*}}, 12.3{{.*}}>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
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

// -----

// Quantizers leave out a Relu that QuantizeLinear repeats. Moves pass the clip on to what is clipped.
func.func @main(%x: tensor<1x2xf32>, %w: tensor<2x2xf32>) -> (tensor<2x1xf32>, tensor<1x2xf32>) {
  %y = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %t = graph.transpose %y {permutation = array<i64: 1, 0>} : (tensor<1x2xf32>) -> tensor<2x1xf32>
  %q = graph.quantize %t : (tensor<2x1xf32>) -> tensor<2x1x!quant.uniform<i8:f32, 0.1:-128>>
  %d = graph.dequantize %q : (tensor<2x1x!quant.uniform<i8:f32, 0.1:-128>>) -> tensor<2x1xf32>
  %s = graph.binary sub %x, %x {activation = #graph.function<relu>} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %p = graph.quantize %s : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.1>>
  %e = graph.dequantize %p : (tensor<1x2x!quant.uniform<i8:f32, 0.1>>) -> tensor<1x2xf32>
  func.return %d, %e : tensor<2x1xf32>, tensor<1x2xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.matmul %{{.*}}, %{{.*}} {graph.exponent = -2 : i64, activation = #graph.function<clip, 0.0, 25.5>} :
// CHECK-NEXT: %{{.*}} = graph.transpose %{{.*}} {graph.exponent = -2 : i64, permutation = array<i64: 1, 0>} :
// CHECK-NEXT: %{{.*}} = graph.binary sub %{{.*}}, %{{.*}} {graph.exponent = -3 : i64, activation = #graph.function<clip, 0.0, 12.69
// CHECK-NEXT: func.return

// -----

// What another operation reads too is clipped behind it, and what has another function stays.
func.func @main(%x: tensor<1x2xf32>, %w: tensor<2x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>) {
  %y = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %q = graph.quantize %y : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.1:-128>>
  %d = graph.dequantize %q : (tensor<1x2x!quant.uniform<i8:f32, 0.1:-128>>) -> tensor<1x2xf32>
  %s = graph.matmul %x, %w {activation = #graph.function<sigmoid>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %p = graph.quantize %s : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.1:-128>>
  %e = graph.dequantize %p : (tensor<1x2x!quant.uniform<i8:f32, 0.1:-128>>) -> tensor<1x2xf32>
  func.return %y, %d, %e : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[Y:.*]] = graph.matmul %{{.*}}, %{{.*}} {graph.exponent = -2 : i64} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT: %[[D:.*]] = graph.unary <clip, 0.0, 25.5> %[[Y]] {graph.exponent = -2 : i64} : tensor<1x2xf32>
// CHECK-NEXT: %[[E:.*]] = graph.matmul %{{.*}}, %{{.*}} {graph.exponent = -6 : i64, activation = #graph.function<sigmoid>} :
// CHECK-NEXT: func.return %[[Y]], %[[D]], %[[E]]

// -----

// Powers of two stay, with their zero points.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %q = graph.quantize %x : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.25:-128>>
  %d = graph.dequantize %q : (tensor<1x2x!quant.uniform<i8:f32, 0.25:-128>>) -> tensor<1x2xf32>
  func.return %d : tensor<1x2xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.quantize %{{.*}} : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.25:-128>>
// CHECK-NEXT: %{{.*}} = graph.dequantize %{{.*}} : (tensor<1x2x!quant.uniform<i8:f32, 0.25:-128>>) -> tensor<1x2xf32>
// CHECK-NEXT: func.return

// -----

// If the channels of an activation have different scales, each is clipped to its range.
func.func @main(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %q = graph.quantize %x : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.3:-128, 0.1:4}>>
  %d = graph.dequantize %q : (tensor<2x2x!quant.uniform<i8:f32:1, {0.3:-128, 0.1:4}>>) -> tensor<2x2xf32>
  %y = graph.matmul %d, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p = graph.quantize %y : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5:-128, 0.25:-128}>>
  %e = graph.dequantize %p : (tensor<2x2x!quant.uniform<i8:f32:1, {0.5:-128, 0.25:-128}>>) -> tensor<2x2xf32>
  func.return %e : tensor<2x2xf32>
}

// CHECK-LABEL: func.func @main(
// CHECK-SAME: graph.exponent = 0 : i64
// CHECK-NEXT: %[[X:.*]] = graph.unary <clip, -13.1{{.*}}, 76.5> %{{.*}} {graph.exponent = 0 : i64}
// CHECK-NEXT: %[[HIGH:.*]] = graph.constant dense<{{\[\[}}7.650000e+01, 1.230000e+01]]>
// CHECK-NEXT: %[[MIN:.*]] = graph.binary min %[[X]], %[[HIGH]] {graph.exponent = 0 : i64}
// CHECK-NEXT: %[[LOW:.*]] = graph.constant dense<{{\[\[}}0.000000e+00, -1.320000e+01]]>
// CHECK-NEXT: %[[MAX:.*]] = graph.binary max %[[MIN]], %[[LOW]] {graph.exponent = 0 : i64}
// CHECK-NEXT: graph.matmul %[[MAX]], %{{.*}} {graph.exponent = 1 : i64, activation = #graph.function<clip, 0.0, 127.5>}
// CHECK-NEXT: graph.constant dense<{{\[\[}}1.275000e+02, 6.375000e+01]]>
// CHECK-NEXT: graph.binary min
// CHECK-NEXT: func.return

// -----

// Bounds that follow from the operations need no clip; one step more than the range is allowed.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %s = graph.unary <sigmoid> %x : tensor<1x2xf32>
  %q = graph.quantize %s : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.00392:-128>>
  %d = graph.dequantize %q : (tensor<1x2x!quant.uniform<i8:f32, 0.00392:-128>>) -> tensor<1x2xf32>
  %t = graph.unary <tanh> %d : tensor<1x2xf32>
  %p = graph.quantize %t : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.006>>
  %e = graph.dequantize %p : (tensor<1x2x!quant.uniform<i8:f32, 0.006>>) -> tensor<1x2xf32>
  func.return %e : tensor<1x2xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[S:.*]] = graph.unary <sigmoid> %{{.*}} {graph.exponent = -6 : i64}
// CHECK-NEXT: %[[T:.*]] = graph.unary <tanh> %[[S]] {graph.exponent = -7 : i64}
// CHECK-NEXT: %[[C:.*]] = graph.unary <clip, -0.76{{.*}}, 0.76{{.*}}> %[[T]] {graph.exponent = -7 : i64}
// CHECK-NEXT: func.return %[[C]]

// -----

// The number that a pad puts around is clipped too. A clip in finer steps than a value that is
// stored already stays an operation.
func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  %q = graph.quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.3>>
  %d = graph.dequantize %q : (tensor<2x!quant.uniform<i8:f32, 0.3>>) -> tensor<2xf32>
  %r = graph.unary <relu> %d : tensor<2xf32>
  %y = graph.pad constant %r {low = array<i64: 1>, high = array<i64: 1>, interior = array<i64: 0>, value = -100.0 : f32} : (tensor<2xf32>) -> tensor<4xf32>
  %p = graph.quantize %y : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.01>>
  %e = graph.dequantize %p : (tensor<4x!quant.uniform<i8:f32, 0.01>>) -> tensor<4xf32>
  %s = graph.quantize %e : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.001>>
  %f = graph.dequantize %s : (tensor<4x!quant.uniform<i8:f32, 0.001>>) -> tensor<4xf32>
  func.return %f : tensor<4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[X:.*]] = graph.unary <clip, -38.4{{.*}}, 38.0{{.*}}> %{{.*}} {graph.exponent = -1 : i64}
// CHECK-NEXT: %[[R:.*]] = graph.unary <clip, 0.0, 1.26{{.*}}> %[[X]] {graph.exponent = -6 : i64}
// CHECK-NEXT: %[[P:.*]] = graph.pad constant %[[R]] {graph.exponent = -6 : i64, {{.*}} value = -1.28{{.*}} : f32}
// CHECK-NEXT: %[[C:.*]] = graph.unary <clip, -0.12{{.*}}, 0.12{{.*}}> %[[P]] {graph.exponent = -9 : i64}
// CHECK-NEXT: func.return %[[C]]
