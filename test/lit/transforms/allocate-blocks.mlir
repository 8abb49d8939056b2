// RUN: ceras-opt %s --allocate-blocks | filecheck %s --check-prefixes=CHECK,OFFSETS
// RUN: ceras-opt %s --allocate-blocks="strategy=colouring io=true alignment=64" | filecheck %s --check-prefixes=CHECK,COLOUR
// RUN: ceras-opt %s --allocate-blocks="strategy=colouring io=true" --allocate-blocks | filecheck %s --check-prefixes=CHECK,OFFSETS

// Without `io`, argument and result stay with the caller: 32, 16 and 4 bytes, aligned, live
// at once. With it, colouring needs three blocks of the size of their largest value.
// CHECK-LABEL:  func.func @main
// OFFSETS-SAME: mem.arena = #mem.arena<size = 64, alignment = 16>
// COLOUR-SAME:  {mem.block = #mem.block<id = 0, offset = 0, size = 64>}
// COLOUR-SAME:  mem.arena = #mem.arena<size = 192, alignment = 64>
// OFFSETS:      %[[A:.*]] = graph.concat {{.*}}#mem.block<id = 0, offset = 0, size = 32>
// COLOUR:       %[[A:.*]] = graph.concat {{.*}}#mem.block<id = 1, offset = 64, size = 64>
// A reshape is the same bytes.
// OFFSETS-NEXT: %[[B:.*]] = graph.reshape %[[A]] {mem.block = #mem.block<id = 0, offset = 0, size = 32>}
// COLOUR-NEXT:  %[[B:.*]] = graph.reshape %[[A]] {mem.block = #mem.block<id = 1, offset = 64, size = 64>}
// OFFSETS-NEXT: %[[C:.*]] = graph.unary <relu> %{{.*}} {mem.block = #mem.block<id = 1, offset = 32, size = 16>}
// COLOUR-NEXT:  %[[C:.*]] = graph.unary <relu> %{{.*}} {mem.block = #mem.block<id = 2, offset = 128, size = 64>}
// CHECK-NEXT:   graph.constant
// OFFSETS-NEXT: graph.matmul %[[B]], {{.*}} {mem.block = #mem.block<id = 2, offset = 48, size = 4>}
// OFFSETS-NEXT: graph.binary "add" %{{.*}}, %[[C]] :
func.func @main(%x: tensor<4xf32>) -> tensor<1x4xf32> {
  %a = graph.concat %x, %x {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %b = graph.reshape %a : (tensor<8xf32>) -> tensor<1x8xf32>
  %c = graph.unary <relu> %x : tensor<4xf32>
  %w = graph.constant dense<1.0> : tensor<1x8xf32> : tensor<1x8xf32>
  %d = graph.matmul %b, %w : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x1xf32>
  %e = graph.binary "add" %d, %c : (tensor<1x1xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  func.return %e : tensor<1x4xf32>
}
