// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @put(
func.func @put(%x: tensor<7x3xf32>, %i: tensor<4xi64>, %u: tensor<4x3xf32>, %q: tensor<7x3x!quant.uniform<i8:f32, 0.5>>, %j: tensor<2xi8>, %v: tensor<2x3x!quant.uniform<i8:f32, 0.5>>) {
  // CHECK: graph.put %u into %x[%i] : (tensor<7x3xf32>, tensor<4xi64>, tensor<4x3xf32>) -> tensor<7x3xf32>
  %0 = graph.put %u into %x[%i] : (tensor<7x3xf32>, tensor<4xi64>, tensor<4x3xf32>) -> tensor<7x3xf32>
  // CHECK: graph.put %u into %x[%i] by max
  %1 = graph.put %u into %x[%i] by max : (tensor<7x3xf32>, tensor<4xi64>, tensor<4x3xf32>) -> tensor<7x3xf32>
  // CHECK: graph.put %v into %q[%j] :
  %2 = graph.put %v into %q[%j] : (tensor<7x3x!quant.uniform<i8:f32, 0.5>>, tensor<2xi8>, tensor<2x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<7x3x!quant.uniform<i8:f32, 0.5>>
  func.return
}
