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
