// RUN: ceras-opt %s --schedule-tiles | filecheck %s --check-prefixes=CHECK,AUTO
// RUN: ceras-opt %s --schedule-tiles --schedule-tiles="schedule=serial" | filecheck %s --check-prefixes=CHECK,AUTO
// RUN: ceras-opt %s --schedule-tiles="schedule=serial mblock=60 kblock=40 nblock=16 board=de10nano" | filecheck %s --check-prefixes=CHECK,FIXED
// RUN: ceras-opt %s --schedule-tiles="convolution=kn2row" | filecheck %s --check-prefixes=CHECK,KN2ROW
// RUN: not ceras-opt %s --schedule-tiles="mblock=3136" 2>&1 | filecheck %s --check-prefix=LARGE
// RUN: not ceras-opt %s --schedule-tiles="kblock=0" 2>&1 | filecheck %s --check-prefix=ZERO
// RUN: not ceras-opt %s --schedule-tiles="schedule=alg3" 2>&1 | filecheck %s --check-prefix=ALG3

// ALG3: error: unsupported schedule=alg3: S3's algorithms are for matrix products; use schedule=auto for convolutions
// LARGE: error: unsupported block sizes: no schedule with mblock=3136 kblock=None nblock=None fits the buffers of 'tsim'
// ZERO: kblock must be at least 1, got 0

// Weights stay on chip, so that one buffer of them is enough; blocks of at most 60 positions, 40 channels are 3 vectors.
// CHECK-LABEL: func.func @conv(
// AUTO:  schedule = #tile.schedule<rows = 4, columns = 56, kblock = 1, nblock = 4, inp_stages = 2, wgt_stages = 1, acc_stages = 2, order = nmk, resident, drain = 2>
// FIXED: schedule = #tile.schedule<rows = 8, columns = 7, kblock = 3, nblock = 1, inp_stages = 1, wgt_stages = 1, acc_stages = 1, order = nmk>
func.func @conv(%x: memref<1x4x56x56x16xi8, "dram">, %w: memref<4x4x3x3x16x16xi8, "dram">, %b: memref<4x16xi32, "dram">, %y: memref<1x4x56x56x16xi8, "dram">) {
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x4x56x56x16xi8, "dram">, memref<4x4x3x3x16x16xi8, "dram">, memref<4x16xi32, "dram"> to memref<1x4x56x56x16xi8, "dram">
  func.return
}

// A schedule that is there stays.
// CHECK-LABEL: func.func @scheduled(
// CHECK: schedule = #tile.schedule<rows = 1, columns = 9, kblock = 4, nblock = 1, inp_stages = 2, wgt_stages = 1, acc_stages = 2, order = nmk>
func.func @scheduled(%x: memref<1x4x1x9x16xi8, "dram">, %w: memref<1x4x1x1x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x1x9x16xi8, "dram">) {
  tile.conv2d %x, %w, %b to %y {schedule = #tile.schedule<rows = 1, columns = 9, kblock = 4, nblock = 1, inp_stages = 2, wgt_stages = 1, acc_stages = 2, order = nmk>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x4x1x9x16xi8, "dram">, memref<1x4x1x1x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x1x9x16xi8, "dram">
  func.return
}

// kn2row where a schedule of that kind fits: not for windows of one position, as above.
// CHECK-LABEL: func.func @dilated(
// AUTO:   schedule = #tile.schedule<{{.*}}
// KN2ROW: schedule = #tile.schedule<{{.*}}kn2row>
func.func @dilated(%x: memref<1x2x40x40x16xi8, "dram">, %w: memref<2x2x3x3x16x16xi8, "dram">, %b: memref<2x16xi32, "dram">, %y: memref<1x2x40x40x16xi8, "dram">) {
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 9, 9, 9, 9>, dilations = array<i64: 9, 9>, shift = 7, low = 0, high = 127} : memref<1x2x40x40x16xi8, "dram">, memref<2x2x3x3x16x16xi8, "dram">, memref<2x16xi32, "dram"> to memref<1x2x40x40x16xi8, "dram">
  func.return
}
