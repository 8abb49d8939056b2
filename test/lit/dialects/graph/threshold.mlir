// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// Thresholds of each channel or of all channels, of sums or of floats; i1 has the integers -1 and 1.
// CHECK-LABEL: func.func @thresholds
// CHECK:         graph.threshold %{{.*}}, %{{.*}} {offset = array<i64: -1, 1>, step = array<i64: 1, -1>}
// CHECK-SAME:      : (tensor<3x2x!quant.uniform<i32:f32, 0.25>>, tensor<2x2xi32>) -> tensor<3x2x!quant.uniform<i2:f32, 1.0>>
// CHECK:         graph.threshold %{{.*}}, %{{.*}} {offset = array<i64: -1>, step = array<i64: 2>}
// CHECK-SAME:      : (tensor<3x2xf32>, tensor<1x1xf32>) -> tensor<3x2x!quant.uniform<i1:f32, 0.5>>
// CHECK:         graph.constant dense<[true, false]> : tensor<2xi1> : tensor<2x!quant.uniform<i1:f32, 0.5>>
func.func @thresholds(%x: tensor<3x2x!quant.uniform<i32:f32, 0.25>>, %z: tensor<3x2xf32>) {
  %t = graph.constant dense<[[-4, 2], [0, 9]]> : tensor<2x2xi32> : tensor<2x2xi32>
  %0 = graph.threshold %x, %t {offset = array<i64: -1, 1>, step = array<i64: 1, -1>} : (tensor<3x2x!quant.uniform<i32:f32, 0.25>>, tensor<2x2xi32>) -> tensor<3x2x!quant.uniform<i2:f32, 1.0>>
  %f = graph.constant dense<0.0> : tensor<1x1xf32> : tensor<1x1xf32>
  %1 = graph.threshold %z, %f {offset = array<i64: -1>, step = array<i64: 2>} : (tensor<3x2xf32>, tensor<1x1xf32>) -> tensor<3x2x!quant.uniform<i1:f32, 0.5>>
  %b = graph.constant dense<[true, false]> : tensor<2xi1> : tensor<2x!quant.uniform<i1:f32, 0.5>>
  func.return
}
