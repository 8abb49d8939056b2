// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @selection
func.func @selection(%x: tensor<2x6x4xf32>, %i: tensor<2x6x4xi32>, %q: tensor<2x6x4x!quant.uniform<i8:f32, 0.5>>) {
  // CHECK-NEXT: graph.slice %{{.*}} {starts = array<i64: 0, 5, 1>, strides = array<i64: 1, -2, 1>} : (tensor<2x6x4xf32>) -> tensor<2x3x2xf32>
  %0 = graph.slice %x {starts = array<i64: 0, 5, 1>, strides = array<i64: 1, -2, 1>} : (tensor<2x6x4xf32>) -> tensor<2x3x2xf32>
  // CHECK-NEXT: graph.gather %{{.*}} {axis = 1 : i64, indices = array<i64: 0, 0, 5>} : (tensor<2x6x4xi32>) -> tensor<2x3x4xi32>
  %1 = graph.gather %i {axis = 1 : i64, indices = array<i64: 0, 0, 5>} : (tensor<2x6x4xi32>) -> tensor<2x3x4xi32>
  // CHECK-NEXT: graph.pad constant %{{.*}} {low = array<i64: 0, 1, 0>, high = array<i64: 0, 0, 0>, interior = array<i64: 0, 0, 1>, value = 0 : i64}
  %2 = graph.pad constant %q {low = array<i64: 0, 1, 0>, high = array<i64: 0, 0, 0>, interior = array<i64: 0, 0, 1>, value = 0 : i64} : (tensor<2x6x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x7x7x!quant.uniform<i8:f32, 0.5>>
  // CHECK-NEXT: graph.pad reflect %{{.*}} {low = array<i64: 0, 5, 0>
  %3 = graph.pad reflect %x {low = array<i64: 0, 5, 0>, high = array<i64: 0, 0, 0>, interior = array<i64: 0, 0, 0>, value = 0.0 : f32} : (tensor<2x6x4xf32>) -> tensor<2x11x4xf32>
  // CHECK-NEXT: graph.reduce sum %{{.*}} {axes = array<i64: 0, 2>} : (tensor<2x6x4xf32>) -> tensor<1x6x1xf32>
  %4 = graph.reduce sum %x {axes = array<i64: 0, 2>} : (tensor<2x6x4xf32>) -> tensor<1x6x1xf32>
  // CHECK-NEXT: graph.reduce max %{{.*}} {axes = array<i64: 1>}
  %5 = graph.reduce max %q {axes = array<i64: 1>} : (tensor<2x6x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x1x4x!quant.uniform<i8:f32, 0.5>>
  // CHECK-NEXT: graph.arg max %{{.*}} {axis = 2 : i64} : (tensor<2x6x4xf32>) -> tensor<2x6x1xi64>
  %6 = graph.arg max %x {axis = 2 : i64} : (tensor<2x6x4xf32>) -> tensor<2x6x1xi64>
  // CHECK-NEXT: graph.arg min %{{.*}} {axis = 0 : i64, last = true}
  %7 = graph.arg min %i {axis = 0 : i64, last = true} : (tensor<2x6x4xi32>) -> tensor<1x6x4xi64>
  // CHECK-NEXT: graph.compare less_or_equal %{{.*}}, %{{.*}} : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x4xi1>
  %8 = graph.compare less_or_equal %x, %x : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x4xi1>
  // CHECK-NEXT: graph.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x6x4xi1>, tensor<2x6x4xi32>, tensor<2x6x4xi32>) -> tensor<2x6x4xi32>
  %9 = graph.select %8, %i, %i : (tensor<2x6x4xi1>, tensor<2x6x4xi32>, tensor<2x6x4xi32>) -> tensor<2x6x4xi32>
  // CHECK-NEXT: graph.cast %{{.*}} : (tensor<2x6x4xi32>) -> tensor<2x6x4xui8>
  %10 = graph.cast %i : (tensor<2x6x4xi32>) -> tensor<2x6x4xui8>
  // CHECK-NEXT: graph.binary pow %{{.*}}, %{{.*}} : (tensor<2x6x4xi32>, tensor<2x6x4xi32>) -> tensor<2x6x4xi32>
  %11 = graph.binary pow %i, %i : (tensor<2x6x4xi32>, tensor<2x6x4xi32>) -> tensor<2x6x4xi32>
  // CHECK-NEXT: graph.top_k min %{{.*}} : (tensor<2x6x4xf32>) -> tensor<2x6x3xi64>
  %12 = graph.top_k min %x : (tensor<2x6x4xf32>) -> tensor<2x6x3xi64>
  func.return
}
