// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @main(
func.func @main(%c: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: %0 = graph.branch if %c then @minus else @same(%x) : (tensor<i1>, tensor<2xf32>) -> tensor<16xi8>
  %0 = graph.branch if %c then @minus else @same(%x) : (tensor<i1>, tensor<2xf32>) -> tensor<16xi8>
  %1 = graph.extract %0 {offset = 0 : i64} : (tensor<16xi8>) -> tensor<2xf32>
  // CHECK: %2 = graph.branch if %c then @one else @one() : (tensor<i1>) -> tensor<16xi8>
  %2 = graph.branch if %c then @one else @one() : (tensor<i1>) -> tensor<16xi8>
  func.return %1 : tensor<2xf32>
}
func.func private @minus(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = graph.binary sub %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
func.func private @same(%x: tensor<2xf32>) -> tensor<2xf32> {
  func.return %x : tensor<2xf32>
}
func.func private @one() -> tensor<f32> {
  %0 = graph.constant dense<1.0> : tensor<f32> : tensor<f32>
  func.return %0 : tensor<f32>
}
