// RUN: ceras-opt %s --block-weights="weight_bits=4:first,2:second,8:third" 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// RUN: not ceras-opt %s --block-weights="weight_bits=3:first" 2>&1 | filecheck %s --check-prefix=WIDTH
// RUN: not ceras-opt %s --block-weights="weight_bits=4:short" 2>&1 | filecheck %s --check-prefix=SHORT

// NOTE: block-weights: note: the weights of 3 layers have blocks of few bits, and the products round each block of the input to 8 bits; convolutions,
// WIDTH: weights of float networks have 2, 4 or 8 bits, got 3: --quantize int8 permits 2 to 8 bits
// SHORT: weight_bits: 'short' has no constant weights that become integers
// CHECK-LABEL: func.func @main(
// CHECK:         %[[W:.*]] = graph.constant dense<0> : tensor<1x16xui8> : tensor<1x16xui8>
// CHECK-NEXT:    %[[S:.*]] = graph.constant dense<-6.250000e-02> : tensor<1x1xf16> : tensor<1x1xf16>
// CHECK-NEXT:    %[[P:.*]] = graph.block_matmul %x, %[[W]] scales %[[S]] : tensor<1x1xf16> bias %{{.*}} : tensor<1xf32> {bits = 4 : i64, block = 32 : i64}
// CHECK-NEXT:    %[[A:.*]] = graph.binary add %[[P]], %r : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
// CHECK-NEXT:    graph.unary <relu> %[[A]] : tensor<2x1xf32>
// CHECK:         graph.block_matmul {{.*}} {bits = 2 : i64, block = 32 : i64}
// CHECK:         graph.block_matmul {{.*}} {bits = 8 : i64, block = 32 : i64}
// Less than 32 inputs, and weights that are computed.
// CHECK:         graph.matmul
// CHECK:         graph.matmul
func.func @main(%x: tensor<2x32xf32>, %r: tensor<2x1xf32>, %v: tensor<1x32xf32>, %z: tensor<2x8xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>) {
  %w = graph.constant dense<0.5> : tensor<1x32xf32> : tensor<1x32xf32>
  %s = graph.constant dense<0.5> : tensor<1x8xf32> : tensor<1x8xf32>
  %b = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.matmul %x, %w bias %b : tensor<1xf32> residual %r : tensor<2x1xf32> {activation = #graph.function<relu>} : (tensor<2x32xf32>, tensor<1x32xf32>) -> tensor<2x1xf32> loc("first")
  %1 = graph.matmul %x, %w : (tensor<2x32xf32>, tensor<1x32xf32>) -> tensor<2x1xf32> loc("second")
  %2 = graph.matmul %x, %w : (tensor<2x32xf32>, tensor<1x32xf32>) -> tensor<2x1xf32> loc("third")
  %3 = graph.matmul %z, %s : (tensor<2x8xf32>, tensor<1x8xf32>) -> tensor<2x1xf32> loc("short")
  %4 = graph.matmul %x, %v : (tensor<2x32xf32>, tensor<1x32xf32>) -> tensor<2x1xf32> loc("computed")
  func.return %0, %1, %2, %3, %4 : tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>
}
