// RUN: ceras-opt %s --fuse-mean --split-input-file | filecheck %s

func.func @main(%x: tensor<1x2x3x4xf32>) -> tensor<1x2x1x4xf32> {
  %n = graph.constant dense<3.0> : tensor<1xf32> : tensor<1xf32>
  %s = graph.reduce sum %x {axes = array<i64: 2>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x1x4xf32>
  %m = graph.binary div %s, %n : (tensor<1x2x1x4xf32>, tensor<1xf32>) -> tensor<1x2x1x4xf32>
  func.return %m : tensor<1x2x1x4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.pool2d average %{{.*}} {kernel = array<i64: 1, 3>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x1x4xf32>
// CHECK-NEXT: func.return %{{.*}} : tensor<1x2x1x4xf32>

// -----

// Channels are no window, and 4 is not their number.
func.func @main(%x: tensor<1x2x3x4xf32>) -> (tensor<1x2x3x1xf32>, tensor<1x2x1x4xf32>) {
  %n = graph.constant dense<4.0> : tensor<1xf32> : tensor<1xf32>
  %s = graph.reduce sum %x {axes = array<i64: 3>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x1xf32>
  %m = graph.binary div %s, %n : (tensor<1x2x3x1xf32>, tensor<1xf32>) -> tensor<1x2x3x1xf32>
  %t = graph.reduce sum %x {axes = array<i64: 2>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x1x4xf32>
  %u = graph.binary div %t, %n : (tensor<1x2x1x4xf32>, tensor<1xf32>) -> tensor<1x2x1x4xf32>
  func.return %m, %u : tensor<1x2x3x1xf32>, tensor<1x2x1x4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.constant dense<4.000000e+00> : tensor<1xf32> : tensor<1xf32>
// CHECK-NEXT: %{{.*}} = graph.reduce sum %{{.*}} {axes = array<i64: 3>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x1xf32>
// CHECK-NEXT: %{{.*}} = graph.binary div %{{.*}}, %{{.*}} : (tensor<1x2x3x1xf32>, tensor<1xf32>) -> tensor<1x2x3x1xf32>
// CHECK-NEXT: %{{.*}} = graph.reduce sum %{{.*}} {axes = array<i64: 2>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x1x4xf32>
// CHECK-NEXT: %{{.*}} = graph.binary div %{{.*}}, %{{.*}} : (tensor<1x2x1x4xf32>, tensor<1xf32>) -> tensor<1x2x1x4xf32>
// CHECK-NEXT: func.return %{{.*}}, %{{.*}} : tensor<1x2x3x1xf32>, tensor<1x2x1x4xf32>
