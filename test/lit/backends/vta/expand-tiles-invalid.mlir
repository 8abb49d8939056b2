// RUN: not ceras-opt %s --expand-tiles --split-input-file 2>&1 | filecheck %s --check-prefixes=CHECK,BORDER
// RUN: not ceras-opt %s --expand-tiles="board=unknown" 2>&1 | filecheck %s --check-prefix=BOARD

// BOARD: target vta has no board 'unknown' (boards: de10nano, pynq, tsim, ultra96, zcu102, zcu104; or a .toml or .json file)

// A schedule written by hand must fit the buffers.
// CHECK: error: unsupported schedule #tile.schedule<rows = 1, columns = 9, kblock = 4, nblock = 1, inp_stages = 2, wgt_stages = 300, acc_stages = 2, order = nmk> on 'tsim': blocks need 1200 elements of wgt, the board has 1024
func.func @large(%x: memref<1x4x1x9x16xi8, "dram">, %w: memref<1x4x1x1x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x1x9x16xi8, "dram">) {
  tile.conv2d %x, %w, %b to %y {schedule = #tile.schedule<rows = 1, columns = 9, kblock = 4, nblock = 1, inp_stages = 2, wgt_stages = 300, acc_stages = 2, order = nmk>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x4x1x9x16xi8, "dram">, memref<1x4x1x1x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x1x9x16xi8, "dram">
  func.return
}

// -----

// Windows of 3x3 around 2 x 3 positions look over four edges and four corners.
// BORDER: error: 'tile.conv2d' has 8 kinds of windows beyond the input, but the border has constants for 7
func.func @border(%x: memref<1x1x2x3x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %e: memref<7x1x16xi32, "dram">, %y: memref<1x1x2x3x16xi8, "dram">) {
  tile.conv2d %x, %w, %b border %e : memref<7x1x16xi32, "dram"> to %y {schedule = #tile.schedule<rows = 2, columns = 3, kblock = 1, nblock = 1, inp_stages = 1, wgt_stages = 1, acc_stages = 1, order = nmk>, outside = -5, strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x2x3x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x2x3x16xi8, "dram">
  func.return
}
