// RUN: ceras-opt %s --fuse-lookup --split-input-file | filecheck %s
// RUN: ceras-opt %s --fuse-lookup --fuse-lookup --split-input-file | filecheck %s

!int8 = !quant.uniform<i8:f32, 0.5>

// The convolution keeps its requantization and gets table, function and type of the lookup.
// CHECK-LABEL: func.func @fused(
// CHECK:         %[[Y:.*]] = graph.conv2d %{{.*}} {graph.function = #graph.function<swish>, requant = #graph.requant<shift = 7, {{[^}]*}}table = dense<3> : tensor<256xi8>} : {{.*}} -> tensor<1x4x4x2x!quant.uniform<i8:f32, 0.25:-5>> loc(fused["conv", "silu"])
// CHECK-NEXT:    func.return %[[Y]]
func.func @fused(%x: tensor<1x4x4x1x!int8>) -> tensor<1x4x4x2x!quant.uniform<i8:f32, 0.25:-5>> {
  %w = graph.constant dense<1> : tensor<2x1x1x1xi8> : tensor<2x1x1x1x!int8>
  %c = graph.conv2d %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x4x1x!int8>, tensor<2x1x1x1x!int8>) -> tensor<1x4x4x2x!int8> loc("conv")
  %y = graph.lookup %c, dense<3> : tensor<256xi8> {graph.function = #graph.function<swish>} : (tensor<1x4x4x2x!int8>) -> tensor<1x4x4x2x!quant.uniform<i8:f32, 0.25:-5>> loc("silu")
  func.return %y : tensor<1x4x4x2x!quant.uniform<i8:f32, 0.25:-5>>
}

// -----

// Tables by channel, of floats, behind a product.
// CHECK-LABEL: func.func @channels(
// CHECK:         graph.matmul %{{.*}} {requant = {{[^}]*}}table = dense<2.000000e+00> : tensor<2x256xf32>, rows = array<i64: 1, 0>} : {{.*}} -> tensor<3x2xf32>
func.func @channels(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2xf32> {
  %w = graph.constant dense<1> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  %c = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  %y = graph.lookup %c, dense<2.0> : tensor<2x256xf32> {rows = array<i64: 1, 0>} : (tensor<3x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Computed weights change nothing.
// CHECK-LABEL: func.func @computed(
// CHECK-NEXT:    graph.matmul %a, %b {requant = {{[^}]*}}table = dense<3> : tensor<256xi8>}
// CHECK-NEXT:    func.return
func.func @computed(%a: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %b: tensor<5x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x5x!quant.uniform<i8:f32, 0.5>> {
  %m = graph.matmul %a, %b {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<5x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x5x!quant.uniform<i8:f32, 0.5>>
  %y = graph.lookup %m, dense<3> : tensor<256xi8> : (tensor<3x5x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x5x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<3x5x!quant.uniform<i8:f32, 0.5>>
}

// -----

// Another reader, weights with a zero point, and more tables than a lane has: none is fused.
// CHECK-LABEL: func.func @kept(
// CHECK:         graph.conv2d
// CHECK-NEXT:    graph.lookup
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    graph.lookup
// CHECK:         graph.matmul
// CHECK-NEXT:    graph.lookup
func.func @kept(%x: tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>, %a: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %b: tensor<17x4x!quant.uniform<i8:f32, 0.5:3>>) -> (tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<3x17x!quant.uniform<i8:f32, 0.5>>, tensor<3x17x!quant.uniform<i8:f32, 0.5>>) {
  %w = graph.constant dense<1> : tensor<2x1x1x1xi8> : tensor<2x1x1x1x!quant.uniform<i8:f32, 0.5>>
  %c = graph.conv2d %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5>>, tensor<2x1x1x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
  %y = graph.lookup %c, dense<3> : tensor<256xi8> : (tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
  %m = graph.matmul %a, %b {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<17x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x17x!quant.uniform<i8:f32, 0.5>>
  %z = graph.lookup %m, dense<3> : tensor<256xi8> : (tensor<3x17x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x17x!quant.uniform<i8:f32, 0.5>>
  %k = graph.constant dense<1> : tensor<17x4xi8> : tensor<17x4x!quant.uniform<i8:f32, 0.5>>
  %n = graph.matmul %a, %k {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<17x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x17x!quant.uniform<i8:f32, 0.5>>
  %t = graph.lookup %n, dense<3> : tensor<17x256xi8> {rows = array<i64: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16>} : (tensor<3x17x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x17x!quant.uniform<i8:f32, 0.5>>
  func.return %c, %y, %z, %t : tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<3x17x!quant.uniform<i8:f32, 0.5>>, tensor<3x17x!quant.uniform<i8:f32, 0.5>>
}
