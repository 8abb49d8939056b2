// RUN: ceras-opt %s --fold-packing --split-input-file | filecheck %s
// RUN: ceras-opt %s --fold-packing --fold-packing --split-input-file | filecheck %s

// Between launches the layout stays; the first value is also read by the CPU.
// CHECK-LABEL: func.func @chain(
// CHECK-NEXT:    %[[A:.*]] = mem.launch @k(
// CHECK-NEXT:    mem.unpack %[[A]]
// CHECK-NEXT:    %[[B:.*]] = mem.launch @k(%[[A]])
// CHECK-NEXT:    mem.unpack %[[B]]
// CHECK-NEXT:    func.return
func.func @chain(%x: tensor<1x4x16xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  %a = mem.launch @k(%x) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %u = mem.unpack %a : (tensor<1x4x16xf32>) -> tensor<4x3xf32>
  %p = mem.pack %u : (tensor<4x3xf32>) -> tensor<1x4x16xf32>
  %b = mem.launch @k(%p) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %v = mem.unpack %b : (tensor<1x4x16xf32>) -> tensor<4x3xf32>
  func.return %u, %v : tensor<4x3xf32>, tensor<4x3xf32>
}
func.func @k(%x: memref<1x4x16xf32>, %y: memref<1x4x16xf32>) {
  func.return
}

// -----

// One value, two readers: packed once. What nothing reads is not unpacked.
// CHECK-LABEL: func.func @shared(
// CHECK-NEXT:    %[[P:.*]] = mem.pack
// CHECK-NEXT:    mem.launch @k(%[[P]])
// CHECK-NEXT:    mem.launch @k(%[[P]])
// CHECK-NEXT:    func.return
func.func @shared(%x: tensor<4x3xf32>) -> (tensor<1x4x16xf32>, tensor<1x4x16xf32>) {
  %p = mem.pack %x : (tensor<4x3xf32>) -> tensor<1x4x16xf32>
  %a = mem.launch @k(%p) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %u = mem.unpack %a : (tensor<1x4x16xf32>) -> tensor<4x3xf32>
  %q = mem.pack %x : (tensor<4x3xf32>) -> tensor<1x4x16xf32>
  %b = mem.launch @k(%q) : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  func.return %a, %b : tensor<1x4x16xf32>, tensor<1x4x16xf32>
}
func.func @k(%x: memref<1x4x16xf32>, %y: memref<1x4x16xf32>) {
  func.return
}

// -----

// The packed value leaves the function: added lanes must be zero, so packing stays.
// CHECK-LABEL: func.func @returned(
// CHECK-NEXT:    mem.unpack
// CHECK-NEXT:    mem.pack
func.func @returned(%a: tensor<1x4x16xf32>) -> tensor<1x4x16xf32> {
  %u = mem.unpack %a : (tensor<1x4x16xf32>) -> tensor<4x3xf32>
  %p = mem.pack %u : (tensor<4x3xf32>) -> tensor<1x4x16xf32>
  func.return %p : tensor<1x4x16xf32>
}

// -----

// The channels of one position are a row in the same layout; those of two images are not.
// CHECK-LABEL: func.func @flattened(
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %a : (tensor<1x2x1x1x16xf32>) -> tensor<2x1x16xf32>
// CHECK-NEXT:    mem.launch @k(%[[R]])
// CHECK-NEXT:    mem.unpack %b
// CHECK-NEXT:    graph.reshape
// CHECK-NEXT:    mem.pack
func.func @flattened(%a: tensor<1x2x1x1x16xf32>, %b: tensor<2x2x1x1x16xf32>) -> (tensor<2x1x16xf32>, tensor<2x2x16xf32>) {
  %u = mem.unpack %a : (tensor<1x2x1x1x16xf32>) -> tensor<1x1x1x20xf32>
  %r = graph.reshape %u : (tensor<1x1x1x20xf32>) -> tensor<1x20xf32>
  %p = mem.pack %r : (tensor<1x20xf32>) -> tensor<2x1x16xf32>
  %c = mem.launch @k(%p) : (tensor<2x1x16xf32>) -> tensor<2x1x16xf32>
  %v = mem.unpack %b : (tensor<2x2x1x1x16xf32>) -> tensor<2x1x1x20xf32>
  %s = graph.reshape %v : (tensor<2x1x1x20xf32>) -> tensor<2x20xf32>
  %q = mem.pack %s : (tensor<2x20xf32>) -> tensor<2x2x16xf32>
  %d = mem.launch @l(%q) : (tensor<2x2x16xf32>) -> tensor<2x2x16xf32>
  func.return %c, %d : tensor<2x1x16xf32>, tensor<2x2x16xf32>
}
func.func @k(%x: memref<2x1x16xf32>, %y: memref<2x1x16xf32>) {
  func.return
}
func.func @l(%x: memref<2x2x16xf32>, %y: memref<2x2x16xf32>) {
  func.return
}

// -----

// Windows of 2x3 with strides 1 and 2, a row of padding above: packed straight from the image.
// CHECK-LABEL: func.func @windows(
// CHECK-NEXT:    %[[P:.*]] = mem.pack_windows %x {kernel = array<i64: 2, 3>, strides = array<i64: 1, 2>, offset = array<i64: 1, 0>, value = -9 : i64, constants = array<i64>}
// CHECK-NEXT:    mem.launch @k(%[[P]])
// CHECK-NEXT:    func.return
func.func @windows(%x: tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x1x3x2x16x!quant.uniform<i8:f32, 0.5:-9>> {
  %p = graph.pad constant %x {low = array<i64: 0, 1, 0, 0>, high = array<i64: 0, 0, 0, 0>, interior = array<i64: 0, 0, 0, 0>, value = -9 : i64} : (tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x4x5x2x!quant.uniform<i8:f32, 0.5:-9>>
  %r = graph.gather %p {axis = 1 : i64, indices = array<i64: 0, 1, 1, 2, 2, 3>} : (tensor<1x4x5x2x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x6x5x2x!quant.uniform<i8:f32, 0.5:-9>>
  %s = graph.reshape %r : (tensor<1x6x5x2x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x3x2x5x2x!quant.uniform<i8:f32, 0.5:-9>>
  %c = graph.gather %s {axis = 3 : i64, indices = array<i64: 0, 1, 2, 2, 3, 4>} : (tensor<1x3x2x5x2x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x3x2x6x2x!quant.uniform<i8:f32, 0.5:-9>>
  %d = graph.reshape %c : (tensor<1x3x2x6x2x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x3x2x2x3x2x!quant.uniform<i8:f32, 0.5:-9>>
  %t = graph.transpose %d {permutation = array<i64: 0, 1, 3, 2, 4, 5>} : (tensor<1x3x2x2x3x2x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x3x2x2x3x2x!quant.uniform<i8:f32, 0.5:-9>>
  %f = graph.reshape %t : (tensor<1x3x2x2x3x2x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x3x2x12x!quant.uniform<i8:f32, 0.5:-9>>
  %k = mem.pack %f : (tensor<1x3x2x12x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x1x3x2x16x!quant.uniform<i8:f32, 0.5:-9>>
  %y = mem.launch @k(%k) : (tensor<1x1x3x2x16x!quant.uniform<i8:f32, 0.5:-9>>) -> tensor<1x1x3x2x16x!quant.uniform<i8:f32, 0.5:-9>>
  func.return %y : tensor<1x1x3x2x16x!quant.uniform<i8:f32, 0.5:-9>>
}
func.func @k(%x: memref<1x1x3x2x16xi8>, %y: memref<1x1x3x2x16xi8>) {
  func.return
}

// -----

// Space to depth; with rows in another order it stays.
// CHECK-LABEL: func.func @depth(
// CHECK-NEXT:    mem.pack_windows %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, offset = array<i64: 0, 0>, value = 0 : i64, constants = array<i64>}
// CHECK-NEXT:    graph.gather
func.func @depth(%x: tensor<1x4x4x3xf32>) -> (tensor<1x1x2x2x16xf32>, tensor<1x1x2x2x16xf32>) {
  %d = graph.reshape %x : (tensor<1x4x4x3xf32>) -> tensor<1x2x2x2x2x3xf32>
  %t = graph.transpose %d {permutation = array<i64: 0, 1, 3, 2, 4, 5>} : (tensor<1x2x2x2x2x3xf32>) -> tensor<1x2x2x2x2x3xf32>
  %f = graph.reshape %t : (tensor<1x2x2x2x2x3xf32>) -> tensor<1x2x2x12xf32>
  %k = mem.pack %f : (tensor<1x2x2x12xf32>) -> tensor<1x1x2x2x16xf32>
  %r = graph.gather %x {axis = 1 : i64, indices = array<i64: 0, 2, 1, 3>} : (tensor<1x4x4x3xf32>) -> tensor<1x4x4x3xf32>
  %s = graph.reshape %r : (tensor<1x4x4x3xf32>) -> tensor<1x2x2x4x3xf32>
  %c = graph.gather %s {axis = 3 : i64, indices = array<i64: 0, 1, 2, 3>} : (tensor<1x2x2x4x3xf32>) -> tensor<1x2x2x4x3xf32>
  %e = graph.reshape %c : (tensor<1x2x2x4x3xf32>) -> tensor<1x2x2x2x2x3xf32>
  %u = graph.transpose %e {permutation = array<i64: 0, 1, 3, 2, 4, 5>} : (tensor<1x2x2x2x2x3xf32>) -> tensor<1x2x2x2x2x3xf32>
  %g = graph.reshape %u : (tensor<1x2x2x2x2x3xf32>) -> tensor<1x2x2x12xf32>
  %l = mem.pack %g : (tensor<1x2x2x12xf32>) -> tensor<1x1x2x2x16xf32>
  func.return %k, %l : tensor<1x1x2x2x16xf32>, tensor<1x1x2x2x16xf32>
}

// -----

// A transpose goes into tiles, and a second one takes it back. One that the CPU reads as well
// stays for that; one of another order is none of tiles.
// CHECK-LABEL: func.func @tiles(
// CHECK-NEXT:    %[[A:.*]] = mem.pack_tiles %x {transposed} : (tensor<20x7xf32>) -> tensor<1x2x1x1x16x16xf32>
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %x
// CHECK-NEXT:    %[[B:.*]] = mem.pack_tiles %x : (tensor<20x7xf32>) -> tensor<2x1x1x1x16x16xf32>
// CHECK-NEXT:    func.return %[[A]], %[[B]], %[[T]]
func.func @tiles(%x: tensor<20x7xf32>) -> (tensor<1x2x1x1x16x16xf32>, tensor<2x1x1x1x16x16xf32>, tensor<7x20xf32>) {
  %s = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<20x7xf32>) -> tensor<7x20xf32>
  %a = mem.pack_tiles %s : (tensor<7x20xf32>) -> tensor<1x2x1x1x16x16xf32>
  %t = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<20x7xf32>) -> tensor<7x20xf32>
  %b = mem.pack_tiles %t {transposed} : (tensor<7x20xf32>) -> tensor<2x1x1x1x16x16xf32>
  func.return %a, %b, %t : tensor<1x2x1x1x16x16xf32>, tensor<2x1x1x1x16x16xf32>, tensor<7x20xf32>
}
