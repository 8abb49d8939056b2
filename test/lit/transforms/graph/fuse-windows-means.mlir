// RUN: ceras-opt %s --fuse-windows="rules=means" --split-input-file | filecheck %s

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

// -----

// Times one over the number, as a division by a constant is imported.
func.func @main(%x: tensor<1x2x3x4xf32>) -> tensor<1x1x1x4xf32> {
  %n = graph.constant dense<0.16666667> : tensor<f32> : tensor<f32>
  %s = graph.reduce sum %x {axes = array<i64: 1, 2>} : (tensor<1x2x3x4xf32>) -> tensor<1x1x1x4xf32>
  %m = graph.binary mul %n, %s : (tensor<f32>, tensor<1x1x1x4xf32>) -> tensor<1x1x1x4xf32>
  func.return %m : tensor<1x1x1x4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.pool2d average %{{.*}} {kernel = array<i64: 2, 3>} : (tensor<1x2x3x4xf32>) -> tensor<1x1x1x4xf32>
// CHECK-NEXT: func.return %{{.*}} : tensor<1x1x1x4xf32>

// -----

// Pixels in one dimension, or tokens.
func.func @main(%x: tensor<2x6x4xf32>) -> tensor<2x1x4xf32> {
  %n = graph.constant dense<6.0> : tensor<f32> : tensor<f32>
  %s = graph.reduce sum %x {axes = array<i64: 1>} : (tensor<2x6x4xf32>) -> tensor<2x1x4xf32>
  %m = graph.binary div %s, %n : (tensor<2x1x4xf32>, tensor<f32>) -> tensor<2x1x4xf32>
  func.return %m : tensor<2x1x4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.reshape %{{.*}} : (tensor<2x6x4xf32>) -> tensor<2x6x1x4xf32>
// CHECK-NEXT: %{{.*}} = graph.pool2d average %{{.*}} {kernel = array<i64: 6, 1>} : (tensor<2x6x1x4xf32>) -> tensor<2x1x1x4xf32>
// CHECK-NEXT: %{{.*}} = graph.reshape %{{.*}} : (tensor<2x1x1x4xf32>) -> tensor<2x1x4xf32>
// CHECK-NEXT: func.return

// -----

// Dimensions that are no neighbours are no window.
func.func @main(%x: tensor<2x3x2x4xf32>) -> tensor<1x3x1x4xf32> {
  %n = graph.constant dense<4.0> : tensor<f32> : tensor<f32>
  %s = graph.reduce sum %x {axes = array<i64: 0, 2>} : (tensor<2x3x2x4xf32>) -> tensor<1x3x1x4xf32>
  %m = graph.binary div %s, %n : (tensor<1x3x1x4xf32>, tensor<f32>) -> tensor<1x3x1x4xf32>
  func.return %m : tensor<1x3x1x4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK: graph.reduce sum
// CHECK-NEXT: graph.binary div

// -----

// One way and then the other. A window that is not all of a dimension stays.
func.func @main(%x: tensor<1x2x3x4xf32>, %y: tensor<1x4x3x4xf32>) -> (tensor<1x1x1x4xf32>, tensor<1x2x1x4xf32>) {
  %a = graph.pool2d average %x {kernel = array<i64: 1, 3>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x1x4xf32>
  %b = graph.pool2d average %a {kernel = array<i64: 2, 1>} : (tensor<1x2x1x4xf32>) -> tensor<1x1x1x4xf32>
  %c = graph.pool2d average %y {kernel = array<i64: 1, 3>} : (tensor<1x4x3x4xf32>) -> tensor<1x4x1x4xf32>
  %d = graph.pool2d average %c {kernel = array<i64: 2, 1>, strides = array<i64: 2, 1>} : (tensor<1x4x1x4xf32>) -> tensor<1x2x1x4xf32>
  func.return %b, %d : tensor<1x1x1x4xf32>, tensor<1x2x1x4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.pool2d average %{{.*}} {kernel = array<i64: 2, 3>} : (tensor<1x2x3x4xf32>) -> tensor<1x1x1x4xf32>
// CHECK-NEXT: %{{.*}} = graph.pool2d average %{{.*}} {kernel = array<i64: 1, 3>} : (tensor<1x4x3x4xf32>) -> tensor<1x4x1x4xf32>
// CHECK-NEXT: %{{.*}} = graph.pool2d average %{{.*}} {kernel = array<i64: 2, 1>, strides = array<i64: 2, 1>}

// -----

// All pixels of a feature map, in one dimension before: x.flatten(2).mean(-1) of PyTorch.
func.func @main(%x: tensor<1x2x3x4xf32>) -> tensor<1x4xf32> {
  %n = graph.constant dense<6.0> : tensor<f32> : tensor<f32>
  %f = graph.reshape %x : (tensor<1x2x3x4xf32>) -> tensor<1x6x4xf32>
  %s = graph.reduce sum %f {axes = array<i64: 1>} : (tensor<1x6x4xf32>) -> tensor<1x1x4xf32>
  %m = graph.binary div %s, %n : (tensor<1x1x4xf32>, tensor<f32>) -> tensor<1x1x4xf32>
  %r = graph.reshape %m : (tensor<1x1x4xf32>) -> tensor<1x4xf32>
  func.return %r : tensor<1x4xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.pool2d average %x {kernel = array<i64: 2, 3>} : (tensor<1x2x3x4xf32>) -> tensor<1x1x1x4xf32>
// CHECK-NEXT: %{{.*}} = graph.reshape %{{.*}} : (tensor<1x1x1x4xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: func.return
