// RUN: ceras-opt %s --merge-launches --split-input-file | filecheck %s
// RUN: ceras-opt %s --merge-launches --merge-launches --split-input-file | filecheck %s

!T = !quant.uniform<i8:f32, 0.5>

// The reshape is a view where its operand lies; packing and unpacking are the host's.
// CHECK-LABEL: func.func @main
// CHECK:       mem.pack
// CHECK-NEXT:  mem.launch @kernel
// CHECK-NOT:   mem.continues
// CHECK-SAME:  id = 1
// CHECK-NEXT:  graph.reshape
// CHECK-NEXT:  mem.launch @kernel
// CHECK-SAME:  mem.continues
// CHECK-NEXT:  mem.unpack
func.func private @kernel(%0: memref<1x1x16xi8, "dram">, %1: memref<1x1x16xi8, "dram">) {
  func.return
}
func.func @main(%x: tensor<1x16x!T>) -> tensor<1x16x!T>
    attributes {mem.arena = #mem.arena<size = 512, alignment = 64>} {
  %a = mem.pack %x {mem.block = #mem.block<id = 0, offset = 0, size = 16>} : (tensor<1x16x!T>) -> tensor<1x1x16x!T>
  %b = mem.launch @kernel(%a) {mem.block = #mem.block<id = 1, offset = 64, size = 16>} : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %v = graph.reshape %b {mem.block = #mem.block<id = 1, offset = 64, size = 16>} : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %c = mem.launch @kernel(%v) {mem.block = #mem.block<id = 2, offset = 128, size = 16>} : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %y = mem.unpack %c {mem.block = #mem.block<id = 3, offset = 0, size = 16>} : (tensor<1x1x16x!T>) -> tensor<1x16x!T>
  func.return %y : tensor<1x16x!T>
}

// -----

!T = !quant.uniform<i8:f32, 0.5>

// Here the reshape is a copy, and the launch behind it no longer continues anything.
// CHECK-LABEL: func.func @main
// CHECK:       graph.reshape
// CHECK-NEXT:  mem.launch @kernel
// CHECK-NOT:   mem.continues
// CHECK-SAME:  offset = 192
func.func private @kernel(%0: memref<1x1x16xi8, "dram">, %1: memref<1x1x16xi8, "dram">) {
  func.return
}
func.func @main(%a: tensor<1x1x16x!T> {mem.block = #mem.block<id = 0, offset = 0, size = 16>}) -> tensor<1x1x16x!T>
    attributes {mem.arena = #mem.arena<size = 512, alignment = 64>} {
  %b = mem.launch @kernel(%a) {mem.block = #mem.block<id = 1, offset = 64, size = 16>} : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %v = graph.reshape %b {mem.block = #mem.block<id = 2, offset = 128, size = 16>} : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %c = mem.launch @kernel(%v) {mem.continues, mem.block = #mem.block<id = 3, offset = 192, size = 16>} : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  func.return %c : tensor<1x1x16x!T>
}
