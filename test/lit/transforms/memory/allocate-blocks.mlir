// RUN: ceras-opt %s --allocate-blocks --split-input-file | filecheck %s --check-prefixes=CHECK,OFFSETS
// RUN: ceras-opt %s --allocate-blocks="strategy=colouring io=true alignment=64" --split-input-file | filecheck %s --check-prefixes=CHECK,COLOUR
// RUN: ceras-opt %s --allocate-blocks="strategy=colouring io=true" --allocate-blocks --split-input-file | filecheck %s --check-prefixes=CHECK,OFFSETS

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
// The argument is read for the last time: the result takes its place.
// COLOUR-NEXT:  %[[C:.*]] = graph.unary <relu> %{{.*}} {mem.block = #mem.block<id = 0, offset = 0, size = 64>}
// CHECK-NEXT:   graph.constant
// OFFSETS-NEXT: graph.matmul %[[B]], {{.*}} {mem.block = #mem.block<id = 2, offset = 48, size = 4>}
// OFFSETS-NEXT: graph.binary add %{{.*}}, %[[C]] :
func.func @main(%x: tensor<4xf32>) -> tensor<1x4xf32> {
  %a = graph.concat %x, %x {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %b = graph.reshape %a : (tensor<8xf32>) -> tensor<1x8xf32>
  %c = graph.unary <relu> %x : tensor<4xf32>
  %w = graph.constant dense<1.0> : tensor<1x8xf32> : tensor<1x8xf32>
  %d = graph.matmul %b, %w : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x1xf32>
  %e = graph.binary add %d, %c : (tensor<1x1xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  func.return %e : tensor<1x4xf32>
}

// -----

// Only the last reader writes over its operand, and only one of the same shape.
// OFFSETS-LABEL: func.func @main
// OFFSETS-SAME:  mem.arena = #mem.arena<size = 32, alignment = 16>
// OFFSETS:       %[[A:.*]] = graph.unary <relu> %{{.*}} {mem.block = #mem.block<id = 0, offset = 0, size = 16>}
// OFFSETS-NEXT:  %[[B:.*]] = graph.unary <sigmoid> %[[A]] {mem.block = #mem.block<id = 1, offset = 16, size = 16>}
// OFFSETS-NEXT:  %[[C:.*]] = graph.binary sub %[[B]], %[[A]] {mem.block = #mem.block<id = 1, offset = 16, size = 16>}
// OFFSETS-NEXT:  %[[D:.*]] = graph.binary mul %[[C]], %[[C]] {mem.block = #mem.block<id = 1, offset = 16, size = 16>}
// OFFSETS-NEXT:  %[[E:.*]] = graph.binary add %[[D]], %[[A]] {mem.block = #mem.block<id = 1, offset = 16, size = 16>}
// OFFSETS-NEXT:  graph.concat
func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
  %a = graph.unary <relu> %x : tensor<4xf32>
  %b = graph.unary <sigmoid> %a : tensor<4xf32>
  %c = graph.binary sub %b, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = graph.binary mul %c, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = graph.binary add %d, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %f = graph.concat %e, %a {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  func.return %f : tensor<8xf32>
}

// -----

// Each result of a launch has a block.
// CHECK-LABEL: func.func @main
// OFFSETS:      mem.launch @two(%{{.*}}) {mem.block = [#mem.block<id = 0, offset = 32, size = 16>, #mem.block<id = 1, offset = 0, size = 32>]}
// COLOUR:       mem.launch @two(%{{.*}}) {mem.block = [#mem.block<id = 1, offset = 64, size = 64>, #mem.block<id = 2, offset = 128, size = 64>]}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %a, %b = mem.launch @two(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>)
  %c = graph.unary <sigmoid> %a : tensor<4xf32>
  %d = graph.unary <sigmoid> %b : tensor<8xf32>
  func.return %c, %d : tensor<4xf32>, tensor<8xf32>
}
func.func private @two(%0: memref<4xf32, "dram">, %1: memref<4xf32, "dram">, %2: memref<8xf32, "dram">) {
  func.return
}
