// RUN: ceras-opt %s --fuse | filecheck %s --check-prefixes=CHECK,SWISH
// RUN: ceras-opt %s --fuse --fuse | filecheck %s --check-prefixes=CHECK,SWISH
// RUN: ceras-opt %s --fuse="hard-swish=true" 2>%t | filecheck %s --check-prefixes=CHECK,HARD
// RUN: filecheck %s --check-prefix=NOTE < %t

// NOTE: swish-to-hard-swish: warning: 1 swish became hard_swish

// Batch normalization, Swish, a residual block: two convolutions remain, and no transpose.
// CHECK-LABEL: func.func @main(
// CHECK-COUNT-3: graph.constant
// SWISH:         %[[A:.*]] = graph.conv2d %{{.*}} bias %{{.*}} {activation = #graph.function<swish>}
// HARD:          %[[A:.*]] = graph.conv2d %{{.*}} bias %{{.*}} {activation = #graph.function<hard_swish>}
// CHECK-NEXT:    graph.constant dense<[5.000000e-01, -2.500000e-01]>
// CHECK-NEXT:    %[[B:.*]] = graph.conv2d %[[A]], %{{.*}} bias %{{.*}} residual %[[A]] {{.*}} {activation = #graph.function<relu>}
// CHECK-NEXT:    func.return %[[B]]
func.func @main(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32> {
  %v = graph.constant dense<[[[[0.5, -1.0]]], [[[2.0, 0.25]]]]> : tensor<2x1x1x2xf32> : tensor<2x1x1x2xf32>
  %w = graph.constant dense<[[[[1.5, 1.0]]], [[[-2.0, 0.75]]]]> : tensor<2x1x1x2xf32> : tensor<2x1x1x2xf32>
  %k = graph.constant dense<[0.5, -0.25]> : tensor<2xf32> : tensor<2xf32>
  %a = graph.conv2d %x, %v : (tensor<1x4x4x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x4x4x2xf32>
  %b = graph.binary mul %a, %k : (tensor<1x4x4x2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
  %c = graph.binary add %b, %k : (tensor<1x4x4x2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
  %s = graph.unary <sigmoid> %c : tensor<1x4x4x2xf32>
  %d = graph.binary mul %c, %s : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %e = graph.conv2d %d, %w : (tensor<1x4x4x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x4x4x2xf32>
  %f = graph.binary add %e, %k : (tensor<1x4x4x2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
  %g = graph.binary add %d, %f : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %h = graph.unary <relu> %g : tensor<1x4x4x2xf32>
  func.return %h : tensor<1x4x4x2xf32>
}
