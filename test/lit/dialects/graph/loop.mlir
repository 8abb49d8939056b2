// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @main(
func.func @main(%h: tensor<2xf32>, %x: tensor<3x2xf32>, %k: tensor<f32>, %go: tensor<i1>) -> tensor<3x2xf32> {
  // CHECK: %0 = graph.loop @row carried(%h : tensor<2xf32>) scanned(%x : tensor<3x2xf32>) captured(%k : tensor<f32>) {steps = 3 : i64, backwards = array<i64: 1, 0>} : tensor<48xi8>
  %0 = graph.loop @row carried(%h : tensor<2xf32>) scanned(%x : tensor<3x2xf32>) captured(%k : tensor<f32>) {steps = 3 : i64, backwards = array<i64: 1, 0>} : tensor<48xi8>
  // CHECK: %1 = graph.extract %0 {offset = 16 : i64} : (tensor<48xi8>) -> tensor<3x2xf32>
  %1 = graph.extract %0 {offset = 16 : i64} : (tensor<48xi8>) -> tensor<3x2xf32>
  // CHECK: %2 = graph.loop @until while %go : tensor<i1> carried(%h : tensor<2xf32>) {steps = 9223372036854775807 : i64, backwards = array<i64>} : tensor<16xi8>
  %2 = graph.loop @until while %go : tensor<i1> carried(%h : tensor<2xf32>) {steps = 9223372036854775807 : i64, backwards = array<i64>} : tensor<16xi8>
  // CHECK: %3 = graph.loop @number {steps = 2 : i64, backwards = array<i64: 0>} : tensor<16xi8>
  %3 = graph.loop @number {steps = 2 : i64, backwards = array<i64: 0>} : tensor<16xi8>
  func.return %1 : tensor<3x2xf32>
}
func.func private @row(%n: tensor<i64>, %h: tensor<2xf32>, %x: tensor<2xf32>, %k: tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %s = graph.binary add %h, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s, %x : tensor<2xf32>, tensor<2xf32>
}
func.func private @until(%n: tensor<i64>, %h: tensor<2xf32>) -> (tensor<i1>, tensor<2xf32>) {
  %0 = graph.constant dense<false> : tensor<i1> : tensor<i1>
  func.return %0, %h : tensor<i1>, tensor<2xf32>
}
func.func private @number(%n: tensor<i64>) -> tensor<i64> {
  func.return %n : tensor<i64>
}
