// RUN: ceras-opt %s --reorder-for-memory --split-input-file | filecheck %s
// RUN: ceras-opt %s --reorder-for-memory="states=0" --split-input-file | filecheck %s
// RUN: ceras-opt %s --reorder-for-memory --reorder-for-memory --split-input-file | filecheck %s

// Two wide values at once as written; one after the other, each is narrow before the next.
// CHECK-LABEL: @main
// CHECK:       graph.constant
// CHECK-NEXT:  %[[WIDE:.*]] = graph.concat
// CHECK-NEXT:  %[[A:.*]] = graph.matmul %[[WIDE]],
// CHECK-NEXT:  %[[OTHER:.*]] = graph.concat
// CHECK-NEXT:  %[[B:.*]] = graph.matmul %[[OTHER]],
// CHECK-NEXT:  graph.binary add %[[A]], %[[B]]
func.func @main(%x: tensor<1x32xf32>) -> tensor<1x1xf32> {
  %p = graph.concat %x, %x {axis = 1 : i64} : (tensor<1x32xf32>, tensor<1x32xf32>) -> tensor<1x64xf32>
  %q = graph.concat %x, %x {axis = 1 : i64} : (tensor<1x32xf32>, tensor<1x32xf32>) -> tensor<1x64xf32>
  %w = graph.constant dense<1.0> : tensor<1x64xf32> : tensor<1x64xf32>
  %a = graph.matmul %p, %w : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x1xf32>
  %b = graph.matmul %q, %w : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x1xf32>
  %y = graph.binary add %a, %b : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}

// -----

// Nothing is gained: the order stays.
// CHECK-LABEL: @main
// CHECK:       graph.unary <relu>
// CHECK-NEXT:  graph.unary <sigmoid>
// CHECK-NEXT:  graph.binary
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.unary <relu> %x : tensor<4xf32>
  %b = graph.unary <sigmoid> %x : tensor<4xf32>
  %c = graph.binary sub %b, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}

// -----

// A plan is for the order that it was made for.
// CHECK-LABEL: @main
// CHECK-SAME:  mem.arena
// CHECK:       graph.concat
// CHECK-NEXT:  graph.concat
func.func @main(%x: tensor<1x32xf32>) -> tensor<1x64xf32> attributes {mem.arena = #mem.arena<size = 512, alignment = 16>} {
  %p = graph.concat %x, %x {axis = 1 : i64} : (tensor<1x32xf32>, tensor<1x32xf32>) -> tensor<1x64xf32>
  %q = graph.concat %x, %x {axis = 1 : i64} : (tensor<1x32xf32>, tensor<1x32xf32>) -> tensor<1x64xf32>
  %y = graph.binary add %p, %q : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  func.return %y : tensor<1x64xf32>
}
