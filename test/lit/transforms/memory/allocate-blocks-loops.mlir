// RUN: ceras-opt %s --allocate-blocks | filecheck %s

// The body of a loop has an arena of its own, and the loop's bytes are a value like others.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: mem.arena = #mem.arena<size = 16, alignment = 16>
func.func @main(%x: tensor<3x2xf32>, %h: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: graph.loop @body {{.*}}mem.block = #mem.block<id = 0, offset = 0, size = 16>
  %0 = graph.loop @body carried(%h : tensor<2xf32>) scanned(%x : tensor<3x2xf32>) {steps = 3 : i64, backwards = array<i64: 0>} : tensor<16xi8>
  %1 = graph.extract %0 {offset = 0 : i64} : (tensor<16xi8>) -> tensor<2xf32>
  func.return %1 : tensor<2xf32>
}

// The first sum is overwritten in place; what is returned has no block.
// CHECK-LABEL: func.func private @body(
// CHECK-SAME: mem.arena = #mem.arena<size = 16, alignment = 16>
func.func private @body(%n: tensor<i64>, %h: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-NEXT: graph.binary add {{.*}}mem.block = #mem.block<id = 0, offset = 0, size = 8>
  %0 = graph.binary add %h, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: graph.unary <tanh> {{.*}}mem.block = #mem.block<id = 0, offset = 0, size = 8>
  %1 = graph.unary <tanh> %0 : tensor<2xf32>
  // CHECK-NEXT: graph.binary mul
  // CHECK-NOT: mem.block
  %2 = graph.binary mul %1, %h : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // CHECK: func.return
  func.return %2 : tensor<2xf32>
}
