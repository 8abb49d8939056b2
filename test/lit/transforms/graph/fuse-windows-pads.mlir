// RUN: ceras-opt %s --fuse-windows="rules=pads" --split-input-file | filecheck %s
// RUN: ceras-opt %s --fuse-windows="rules=pads" --split-input-file --print-debuginfo | filecheck %s --check-prefix=NAMES

func.func @main(%x: tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:-5>>, %w: tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x3x2x1x!quant.uniform<i8:f32, 0.5>> {
  %p = graph.pad constant %x {low = array<i64: 0, 1, 0, 0>, high = array<i64: 0, 1, 1, 0>, interior = array<i64: 0, 0, 0, 0>, value = -5 : i64} : (tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:-5>>) -> tensor<1x4x3x1x!quant.uniform<i8:f32, 0.5:-5>>
  %y = graph.conv2d %p, %w {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x3x1x!quant.uniform<i8:f32, 0.5:-5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x3x2x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x3x2x1x!quant.uniform<i8:f32, 0.5>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.conv2d %{{.*}}, %{{.*}} {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>, padding = array<i64: 1, 0, 1, 1>} : (tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:-5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x3x2x1x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT: func.return %{{.*}} : tensor<1x3x2x1x!quant.uniform<i8:f32, 0.5>>

// -----

// Padded in the model's layout, before the transpose.
func.func @main(%x: tensor<1x1x2x2xf32>, %w: tensor<1x2x2x1xf32>) -> tensor<1x3x2x1xf32> {
  %p = graph.pad constant %x {low = array<i64: 0, 0, 1, 0>, high = array<i64: 0, 0, 1, 1>, interior = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : (tensor<1x1x2x2xf32>) -> tensor<1x1x4x3xf32>
  %t = graph.transpose %p {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x1x4x3xf32>) -> tensor<1x4x3x1xf32>
  %y = graph.conv2d %t, %w : (tensor<1x4x3x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x3x2x1xf32>
  func.return %y : tensor<1x3x2x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.transpose %{{.*}} {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x1x2x2xf32>) -> tensor<1x2x2x1xf32>
// CHECK-NEXT: %{{.*}} = graph.conv2d %{{.*}}, %{{.*}} {padding = array<i64: 1, 0, 1, 1>} : (tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x3x2x1xf32>
// CHECK-NEXT: func.return %{{.*}} : tensor<1x3x2x1xf32>

// -----

// The transpose of one channel, as canonicalization writes it.
func.func @main(%x: tensor<1x1x2x2xf32>, %w: tensor<1x2x2x1xf32>) -> tensor<1x3x2x1xf32> {
  %p = graph.pad constant %x {low = array<i64: 0, 0, 1, 0>, high = array<i64: 0, 0, 1, 1>, interior = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : (tensor<1x1x2x2xf32>) -> tensor<1x1x4x3xf32>
  %t = graph.reshape %p : (tensor<1x1x4x3xf32>) -> tensor<1x4x3x1xf32>
  %y = graph.conv2d %t, %w : (tensor<1x4x3x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x3x2x1xf32>
  func.return %y : tensor<1x3x2x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.reshape %{{.*}} : (tensor<1x1x2x2xf32>) -> tensor<1x2x2x1xf32>
// CHECK-NEXT: %{{.*}} = graph.conv2d %{{.*}}, %{{.*}} {padding = array<i64: 1, 0, 1, 1>} : (tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x3x2x1xf32>
// CHECK-NEXT: func.return %{{.*}} : tensor<1x3x2x1xf32>

// -----

// Another reshape than a transpose of one channel puts the zeros elsewhere.
func.func @main(%x: tensor<1x2x1x3xf32>, %w: tensor<1x1x1x2xf32>) -> tensor<1x2x4x1xf32> {
  %p = graph.pad constant %x {low = array<i64: 0, 0, 0, 1>, high = array<i64: 0, 0, 1, 0>, interior = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : (tensor<1x2x1x3xf32>) -> tensor<1x2x2x4xf32>
  %t = graph.reshape %p : (tensor<1x2x2x4xf32>) -> tensor<1x2x4x2xf32>
  %y = graph.conv2d %t, %w : (tensor<1x2x4x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x2x4x1xf32>
  func.return %y : tensor<1x2x4x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.pad constant %{{.*}}
// CHECK-NEXT: %{{.*}} = graph.reshape %{{.*}}
// CHECK-NEXT: %{{.*}} = graph.conv2d %{{.*}}

// -----

// Ones are no padding of a convolution.
func.func @main(%x: tensor<1x2x2x1xf32>, %w: tensor<1x2x2x1xf32>) -> tensor<1x3x2x1xf32> {
  %p = graph.pad constant %x {low = array<i64: 0, 1, 0, 0>, high = array<i64: 0, 1, 1, 0>, interior = array<i64: 0, 0, 0, 0>, value = 1.0 : f32} : (tensor<1x2x2x1xf32>) -> tensor<1x4x3x1xf32>
  %y = graph.conv2d %p, %w : (tensor<1x4x3x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x3x2x1xf32>
  func.return %y : tensor<1x3x2x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.pad constant %{{.*}} {low = array<i64: 0, 1, 0, 0>, high = array<i64: 0, 1, 1, 0>, interior = array<i64: 0, 0, 0, 0>, value = 1.000000e+00 : f32} : (tensor<1x2x2x1xf32>) -> tensor<1x4x3x1xf32>
// CHECK-NEXT: %{{.*}} = graph.conv2d %{{.*}}, %{{.*}} : (tensor<1x4x3x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x3x2x1xf32>
// CHECK-NEXT: func.return %{{.*}} : tensor<1x3x2x1xf32>

// -----

// The convolution answers to the names of both nodes.
func.func @main(%x: tensor<1x2x2x1xf32>, %w: tensor<1x2x2x1xf32>) -> tensor<1x3x2x1xf32> {
  %p = graph.pad constant %x {low = array<i64: 0, 1, 0, 0>, high = array<i64: 0, 1, 1, 0>, interior = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : (tensor<1x2x2x1xf32>) -> tensor<1x4x3x1xf32> loc("border")
  %y = graph.conv2d %p, %w : (tensor<1x4x3x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x3x2x1xf32> loc("windows")
  func.return %y : tensor<1x3x2x1xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.conv2d %{{.*}} {padding = array<i64: 1, 0, 1, 1>}
// NAMES: graph.conv2d {{.*}} loc(fused["windows", "border"])
