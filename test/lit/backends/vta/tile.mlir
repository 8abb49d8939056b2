// RUN: ceras-opt %s --tile="schedule=serial kblock=32" | filecheck %s
// RUN: ceras-opt %s --schedule-tiles="schedule=serial kblock=32" --expand-tiles | filecheck %s

// CHECK-LABEL: func.func @matmul(
// CHECK:         memref.alloc() : memref<1x2x9x1x16xi8, "inp">
// CHECK:         scf.for
// CHECK:         tile.gemm
// CHECK-NOT:     tile.conv2d
func.func @matmul(%x: memref<1x4x1x9x16xi8, "dram">, %w: memref<4x4x1x1x16x16xi8, "dram">, %b: memref<4x16xi32, "dram">, %y: memref<1x4x1x9x16xi8, "dram">) {
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x4x1x9x16xi8, "dram">, memref<4x4x1x1x16x16xi8, "dram">, memref<4x16xi32, "dram"> to memref<1x4x1x9x16xi8, "dram">
  func.return
}
