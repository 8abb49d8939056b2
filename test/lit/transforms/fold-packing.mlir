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
