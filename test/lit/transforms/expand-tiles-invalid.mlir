// RUN: not ceras-opt %s --expand-tiles 2>&1 | filecheck %s
// RUN: not ceras-opt %s --expand-tiles="board=unknown" 2>&1 | filecheck %s --check-prefix=BOARD

// BOARD: unknown VTA board 'unknown', known are de10nano, pynq, ultra96, zcu102, zcu104

// A schedule written by hand must fit the buffers.
// CHECK: error: unsupported schedule #tile.schedule<rows = 1, columns = 9, kblock = 4, nblock = 1, inp_stages = 2, wgt_stages = 300, acc_stages = 2, order = nmk> on 'zcu102': its blocks need 1200 elements of wgt, the board has 1024
func.func @large(%x: memref<1x4x1x9x16xi8, "dram">, %w: memref<1x4x1x1x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x1x9x16xi8, "dram">) {
  tile.conv2d %x, %w, %b to %y {schedule = #tile.schedule<rows = 1, columns = 9, kblock = 4, nblock = 1, inp_stages = 2, wgt_stages = 300, acc_stages = 2, order = nmk>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x4x1x9x16xi8, "dram">, memref<1x4x1x1x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x1x9x16xi8, "dram">
  func.return
}
