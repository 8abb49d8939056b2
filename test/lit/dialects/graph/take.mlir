// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<7x3xf32>, %q: tensor<7x3x!quant.uniform<i8:f32, 0.5>>, %i: tensor<4xi64>, %j: tensor<2xi8>) -> (tensor<4x3xf32>, tensor<2x3x!quant.uniform<i8:f32, 0.5>>) {
  // CHECK: graph.take %x[%i] : (tensor<7x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
  %0 = graph.take %x[%i] : (tensor<7x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
  // CHECK: graph.take %q[%j] : (tensor<7x3x!quant.uniform<i8:f32, 0.5>>, tensor<2xi8>) -> tensor<2x3x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.take %q[%j] : (tensor<7x3x!quant.uniform<i8:f32, 0.5>>, tensor<2xi8>) -> tensor<2x3x!quant.uniform<i8:f32, 0.5>>
  func.return %0, %1 : tensor<4x3xf32>, tensor<2x3x!quant.uniform<i8:f32, 0.5>>
}
