// RUN: ceras-opt %s --gather-launches --split-input-file | filecheck %s
// RUN: ceras-opt %s --gather-launches --gather-launches --split-input-file | filecheck %s

!T = !quant.uniform<i8:f32, 0.5>

// Three heads: their operands are packed first, their results unpacked last, launches in order.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  mem.pack %x
// CHECK-NEXT:  %[[S:.*]] = graph.slice %x
// CHECK-NEXT:  mem.pack %[[S]]
// CHECK-NEXT:  graph.constant
// CHECK-NEXT:  mem.pack %z
// CHECK-NEXT:  %[[A:.*]] = mem.launch @one
// CHECK-NEXT:  %[[B:.*]] = mem.launch @one
// CHECK-NEXT:  %[[C:.*]] = mem.launch @two
// CHECK-NEXT:  mem.unpack %[[A]]
// CHECK-NEXT:  mem.unpack %[[B]]
// CHECK-NEXT:  mem.unpack %[[C]]
func.func private @one(%0: memref<1x1x16xi8, "dram">, %1: memref<1x1x16xi8, "dram">) {
  func.return
}
func.func private @two(%0: memref<1x1x16xi8, "dram">, %1: memref<1x1x16xi8, "dram">, %2: memref<1x1x16xi8, "dram">) {
  func.return
}
func.func @main(%x: tensor<1x16x!T>, %z: tensor<1x16x!T>) -> (tensor<1x16x!T>, tensor<1x8x!T>, tensor<1x16x!T>) {
  %p = mem.pack %x : (tensor<1x16x!T>) -> tensor<1x1x16x!T>
  %a = mem.launch @one(%p) : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %u = mem.unpack %a : (tensor<1x1x16x!T>) -> tensor<1x16x!T>
  %s = graph.slice %x {starts = array<i64: 0, 8>, strides = array<i64: 1, 1>} : (tensor<1x16x!T>) -> tensor<1x8x!T>
  %q = mem.pack %s : (tensor<1x8x!T>) -> tensor<1x1x16x!T>
  %b = mem.launch @one(%q) : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %v = mem.unpack %b : (tensor<1x1x16x!T>) -> tensor<1x8x!T>
  %k = graph.constant dense<1> : tensor<1x1x16xi8> : tensor<1x1x16x!T>
  %r = mem.pack %z : (tensor<1x16x!T>) -> tensor<1x1x16x!T>
  %c = mem.launch @two(%r, %k) : (tensor<1x1x16x!T>, tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %w = mem.unpack %c : (tensor<1x1x16x!T>) -> tensor<1x16x!T>
  func.return %u, %v, %w : tensor<1x16x!T>, tensor<1x8x!T>, tensor<1x16x!T>
}

// -----

!T = !quant.uniform<i8:f32, 0.5>

// What the second launch reads comes through the host from the first: nothing moves.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  mem.pack
// CHECK-NEXT:  mem.launch
// CHECK-NEXT:  mem.unpack
// CHECK-NEXT:  mem.pack
// CHECK-NEXT:  mem.launch
func.func private @one(%0: memref<1x1x16xi8, "dram">, %1: memref<1x1x16xi8, "dram">) {
  func.return
}
func.func @main(%x: tensor<1x16x!T>) -> tensor<1x1x16x!T> {
  %p = mem.pack %x : (tensor<1x16x!T>) -> tensor<1x1x16x!T>
  %a = mem.launch @one(%p) : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %u = mem.unpack %a : (tensor<1x1x16x!T>) -> tensor<1x16x!T>
  %q = mem.pack %u : (tensor<1x16x!T>) -> tensor<1x1x16x!T>
  %b = mem.launch @one(%q) : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  func.return %b : tensor<1x1x16x!T>
}

// -----

!T = !quant.uniform<i8:f32, 0.5>

// The host computes for the second launch, here a sum: it stays between.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  mem.pack
// CHECK-NEXT:  mem.launch
// CHECK-NEXT:  mem.unpack
// CHECK-NEXT:  graph.binary
// CHECK-NEXT:  mem.pack
// CHECK-NEXT:  mem.launch
func.func private @one(%0: memref<1x1x16xi8, "dram">, %1: memref<1x1x16xi8, "dram">) {
  func.return
}
func.func @main(%x: tensor<1x16x!T>) -> (tensor<1x16x!T>, tensor<1x1x16x!T>) {
  %p = mem.pack %x : (tensor<1x16x!T>) -> tensor<1x1x16x!T>
  %a = mem.launch @one(%p) : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %u = mem.unpack %a : (tensor<1x1x16x!T>) -> tensor<1x16x!T>
  %y = graph.binary add %x, %x {requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (tensor<1x16x!T>, tensor<1x16x!T>) -> tensor<1x16x!T>
  %q = mem.pack %y : (tensor<1x16x!T>) -> tensor<1x1x16x!T>
  %b = mem.launch @one(%q) : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  func.return %u, %b : tensor<1x16x!T>, tensor<1x1x16x!T>
}

// -----

!T = !quant.uniform<i8:f32, 0.5>

// A view of a result stays between the launches; what is packed beside it goes before both, and a
// slice of the view keeps the third launch where it is.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  mem.pack %x
// CHECK-NEXT:  mem.pack %z
// CHECK-NEXT:  %[[A:.*]] = mem.launch @one
// CHECK-NEXT:  %[[V:.*]] = graph.reshape %[[A]]
// CHECK-NEXT:  mem.launch @two
// CHECK-NEXT:  mem.unpack %[[A]]
// CHECK-NEXT:  graph.slice %[[V]]
// CHECK-NEXT:  mem.pack
// CHECK-NEXT:  mem.launch @one
func.func private @one(%0: memref<1x1x16xi8, "dram">, %1: memref<1x1x16xi8, "dram">) {
  func.return
}
func.func private @two(%0: memref<1x16xi8, "dram">, %1: memref<1x1x16xi8, "dram">, %2: memref<1x1x16xi8, "dram">) {
  func.return
}
func.func @main(%x: tensor<1x16x!T>, %z: tensor<1x16x!T>) -> (tensor<1x16x!T>, tensor<1x1x16x!T>, tensor<1x1x16x!T>) {
  %p = mem.pack %x : (tensor<1x16x!T>) -> tensor<1x1x16x!T>
  %a = mem.launch @one(%p) : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %u = mem.unpack %a : (tensor<1x1x16x!T>) -> tensor<1x16x!T>
  %v = graph.reshape %a : (tensor<1x1x16x!T>) -> tensor<1x16x!T>
  %q = mem.pack %z : (tensor<1x16x!T>) -> tensor<1x1x16x!T>
  %b = mem.launch @two(%v, %q) : (tensor<1x16x!T>, tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %s = graph.slice %v {starts = array<i64: 0, 8>, strides = array<i64: 1, 1>} : (tensor<1x16x!T>) -> tensor<1x8x!T>
  %r = mem.pack %s : (tensor<1x8x!T>) -> tensor<1x1x16x!T>
  %c = mem.launch @one(%r) : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  func.return %u, %b, %c : tensor<1x16x!T>, tensor<1x1x16x!T>, tensor<1x1x16x!T>
}
