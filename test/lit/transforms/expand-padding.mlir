// RUN: ceras-opt %s --expand-padding --split-input-file | filecheck %s
// RUN: ceras-opt %s --expand-padding --expand-padding --split-input-file | filecheck %s
// RUN: ceras-opt %s --expand-padding --fuse-pad --split-input-file | filecheck %s --check-prefix=BACK

// The zero point goes around rows and columns; both readers with one padding share it.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[P:.*]] = graph.pad "constant" %x {low = array<i64: 0, 1, 0, 0>, high = array<i64: 0, 0, 1, 0>, interior = array<i64: 0, 0, 0, 0>, value = -5 : i64} : {{.*}} -> tensor<1x3x3x1x!quant.uniform<i8:f32, 0.5:-5>>
// CHECK-NEXT:    graph.conv2d %[[P]], %{{.*}} {requant
// CHECK-NEXT:    graph.conv2d %[[P]], %{{.*}} {requant
// CHECK-NEXT:    func.return
// BACK-LABEL:  func.func @main(
// BACK-NOT:      graph.pad
// BACK-COUNT-2:  graph.conv2d %x, %{{.*}}padding = array<i64: 1, 0, 0, 1>
func.func @main(%x: tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:-5>>) -> (tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) {
  %w = graph.constant dense<1> : tensor<1x2x2x1xi8> : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {padding = array<i64: 1, 0, 0, 1>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:-5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %z = graph.conv2d %x, %w {padding = array<i64: 1, 0, 0, 1>, requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:-5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y, %z : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

// Loads put zeros there themselves.
// CHECK-LABEL: func.func @symmetric(
// CHECK-NOT:     graph.pad
// CHECK:         graph.conv2d %x, %{{.*}}padding = array<i64: 1, 0, 0, 1>
func.func @symmetric(%x: tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:3>> {
  %w = graph.constant dense<1> : tensor<1x2x2x1xi8> : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {padding = array<i64: 1, 0, 0, 1>, requant = #graph.requant<shift = 1, rounding = half_up, zero_point = 3, low = -128, high = 127>} : (tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:3>>
  func.return %y : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:3>>
}

// -----

// A multiplier is the CPU's: nothing is to gain.
// CHECK-LABEL: func.func @multiplier(
// CHECK-NOT:     graph.pad
// CHECK:         graph.conv2d %x, %{{.*}}padding = array<i64: 1, 0, 0, 1>
func.func @multiplier(%x: tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:-5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<1> : tensor<1x2x2x1xi8> : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {padding = array<i64: 1, 0, 0, 1>, requant = #graph.requant<multiplier = 3, shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:-5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

// Floats have no zero point, and without padding there is nothing to put.
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     graph.pad
func.func @others(%x: tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:-5>>, %f: tensor<1x2x2x1xf32>) -> (tensor<1x1x1x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x1xf32>) {
  %w = graph.constant dense<1> : tensor<1x2x2x1xi8> : tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5:-5>>, tensor<1x2x2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x1x1x!quant.uniform<i8:f32, 0.5>>
  %u = graph.constant dense<1.0> : tensor<1x2x2x1xf32> : tensor<1x2x2x1xf32>
  %g = graph.conv2d %f, %u {padding = array<i64: 1, 0, 0, 1>} : (tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  func.return %y, %g : tensor<1x1x1x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x1xf32>
}
