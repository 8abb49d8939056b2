// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: memref<1x4x56x56x16xi8, "dram">, %w: memref<4x36x16x16xi8, "dram">, %b: memref<4x16xi32, "dram">, %y: memref<1x4x56x56x16xi8, "dram">) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %bias = memref.alloc() : memref<4x1x16xi32, "acc">
  %inp = memref.alloc() : memref<2x4x6x58x1x16xi8, "inp">
  %wgt = memref.alloc() : memref<36x16x16xi8, "wgt">
  %ring = memref.alloc() : memref<2x4x4x56x1x16xi32, "acc">
  // CHECK: %[[ACC:.*]] = tile.rotate %{{.*}} : memref<2x4x4x56x1x16xi32, "acc"> to memref<4x4x56x1x16xi32, "acc">
  %acc = tile.rotate %ring : memref<2x4x4x56x1x16xi32, "acc"> to memref<4x4x56x1x16xi32, "acc">
  // CHECK: %[[X:.*]] = tile.rotate
  %xt = tile.rotate %inp : memref<2x4x6x58x1x16xi8, "inp"> to memref<4x6x58x1x16xi8, "inp">
  // CHECK: tile.load %{{.*}}[%{{.*}}] to %{{.*}}[] {box = array<i64: 1, 4>} : memref<4x16xi32, "dram"> to memref<4x1x16xi32, "acc">
  tile.load %b[%c0] to %bias[] {box = array<i64: 1, 4>} : memref<4x16xi32, "dram"> to memref<4x1x16xi32, "acc">
  // CHECK: tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] to %[[X]][%{{.*}}] {box = array<i64: 6, 58>, row_step = 2 : i64}
  tile.load %x[%c0, %c0, %c0, %c0] to %xt[%c1] {box = array<i64: 6, 58>, row_step = 2 : i64} : memref<1x4x56x56x16xi8, "dram"> to memref<4x6x58x1x16xi8, "inp">
  // CHECK: tile.load %{{.*}} to %{{.*}}[] {box = array<i64: 4, 9>} : memref<4x36x16x16xi8, "dram"> to memref<36x16x16xi8, "wgt">
  tile.load %w[%c0, %c0] to %wgt[] {box = array<i64: 4, 9>} : memref<4x36x16x16xi8, "dram"> to memref<36x16x16xi8, "wgt">
  // CHECK: tile.clear %[[ACC]][] {extents = array<i64: 896>} : memref<4x4x56x1x16xi32, "acc">
  tile.clear %acc[] {extents = array<i64: 896>} : memref<4x4x56x1x16xi32, "acc">
  // CHECK: tile.gemm %[[ACC]][], %[[X]][%{{.*}}, %{{.*}}], %{{.*}}[%{{.*}}] {extents = array<i64: 4, 56>, acc_strides = array<i64: 56, 1>, inp_strides = array<i64: 58, 1>, wgt_strides = array<i64: 0, 0>}
  tile.gemm %acc[], %xt[%c0, %c1], %wgt[%c1] {extents = array<i64: 4, 56>, acc_strides = array<i64: 56, 1>, inp_strides = array<i64: 58, 1>, wgt_strides = array<i64: 0, 0>} : memref<4x4x56x1x16xi32, "acc">, memref<4x6x58x1x16xi8, "inp">, memref<36x16x16xi8, "wgt">
  // CHECK: tile.alu add %[[ACC]][] with %{{.*}}[%{{.*}}] : memref<4x1x16xi32, "acc"> {extents = array<i64: 4, 224>, target_strides = array<i64: 224, 1>, source_strides = array<i64: 1, 0>} : memref<4x4x56x1x16xi32, "acc">
  tile.alu add %acc[] with %bias[%c0] : memref<4x1x16xi32, "acc"> {extents = array<i64: 4, 224>, target_strides = array<i64: 224, 1>, source_strides = array<i64: 1, 0>} : memref<4x4x56x1x16xi32, "acc">
  // CHECK: tile.alu shr %[[ACC]][] {extents = array<i64: 896>, target_strides = array<i64: 1>, immediate = 9 : i64} : memref<4x4x56x1x16xi32, "acc">
  tile.alu shr %acc[] {extents = array<i64: 896>, target_strides = array<i64: 1>, immediate = 9} : memref<4x4x56x1x16xi32, "acc">
  // CHECK: tile.store %[[ACC]][%{{.*}}] to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] {box = array<i64: 4, 56>} : memref<4x4x56x1x16xi32, "acc"> to memref<1x4x56x56x16xi8, "dram">
  tile.store %acc[%c1] to %y[%c0, %c1, %c0, %c0] {box = array<i64: 4, 56>} : memref<4x4x56x1x16xi32, "acc"> to memref<1x4x56x56x16xi8, "dram">
  func.return
}

// CHECK-LABEL: func.func @contraction
func.func @contraction(%x: memref<4x9x16xi8, "dram">, %w: memref<2x4x1x1x16x16xi8, "dram">, %b: memref<2x16xi32, "dram">, %r: memref<1x2x1x9x16xi8, "dram">, %d: memref<16x16xi8, "dram">, %y: memref<1x2x1x9x16xi8, "dram">) {
  // CHECK: %[[V:.*]] = tile.view %{{.*}} : memref<4x9x16xi8, "dram"> to memref<1x4x1x9x16xi8, "dram">
  %v = tile.view %x : memref<4x9x16xi8, "dram"> to memref<1x4x1x9x16xi8, "dram">
  // CHECK: tile.conv2d %[[V]], %{{.*}}, %{{.*}} to %{{.*}} {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7 : i64, low = 0 : i64, high = 127 : i64} : memref<1x4x1x9x16xi8, "dram">, memref<2x4x1x1x16x16xi8, "dram">, memref<2x16xi32, "dram"> to memref<1x2x1x9x16xi8, "dram">
  tile.conv2d %v, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x4x1x9x16xi8, "dram">, memref<2x4x1x1x16x16xi8, "dram">, memref<2x16xi32, "dram"> to memref<1x2x1x9x16xi8, "dram">
  // CHECK: tile.conv2d %[[V]], %{{.*}}, %{{.*}} residual %{{.*}}, %{{.*}} : memref<1x2x1x9x16xi8, "dram">, memref<16x16xi8, "dram"> to %{{.*}} {{.*}}schedule = #tile.schedule<rows = 1, columns = 9, kblock = 4, nblock = 2, inp_stages = 2, wgt_stages = 1, acc_stages = 2, order = mnk, resident, drain = 1, kn2row>, residual_shift = 3 : i64
  tile.conv2d %v, %w, %b residual %r, %d : memref<1x2x1x9x16xi8, "dram">, memref<16x16xi8, "dram"> to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127, schedule = #tile.schedule<rows = 1, columns = 9, kblock = 4, nblock = 2, inp_stages = 2, wgt_stages = 1, acc_stages = 2, order = mnk, resident, drain = 1, kn2row>, residual_shift = 3} : memref<1x4x1x9x16xi8, "dram">, memref<2x4x1x1x16x16xi8, "dram">, memref<2x16xi32, "dram"> to memref<1x2x1x9x16xi8, "dram">
  func.return
}

// CHECK-LABEL: func.func @max_pool(
// CHECK-NEXT:    tile.max_pool %{{.*}}, %{{.*}} to %{{.*}} {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 0, 0>, least = -128 : i64} : memref<1x2x8x8x16xi8, "dram">, memref<16x16xi8, "dram"> to memref<1x2x4x4x16xi8, "dram">
func.func @max_pool(%x: memref<1x2x8x8x16xi8, "dram">, %i: memref<16x16xi8, "dram">, %y: memref<1x2x4x4x16xi8, "dram">) {
  tile.max_pool %x, %i to %y {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 0, 0>, least = -128 : i64} : memref<1x2x8x8x16xi8, "dram">, memref<16x16xi8, "dram"> to memref<1x2x4x4x16xi8, "dram">
  func.return
}

// CHECK-LABEL: func.func @average_pool(
// CHECK-NEXT:    tile.average_pool %{{.*}}, %{{.*}}, %{{.*}} to %{{.*}} {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, addend = 2 : i64, shift = 2 : i64, low = -128 : i64, high = 127 : i64} : memref<1x2x8x8x16xi8, "dram">, memref<1x16x16xi8, "dram">, memref<16xi32, "dram"> to memref<1x2x4x4x16xi8, "dram">
func.func @average_pool(%x: memref<1x2x8x8x16xi8, "dram">, %w: memref<1x16x16xi8, "dram">, %b: memref<16xi32, "dram">, %y: memref<1x2x4x4x16xi8, "dram">) {
  tile.average_pool %x, %w, %b to %y {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, addend = 2, shift = 2, low = -128, high = 127} : memref<1x2x8x8x16xi8, "dram">, memref<1x16x16xi8, "dram">, memref<16xi32, "dram"> to memref<1x2x4x4x16xi8, "dram">
  func.return
}

// CHECK-LABEL: func.func @border(
func.func @border(%x: memref<1x1x2x3x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %e: memref<8x1x16xi32, "dram">, %y: memref<1x1x2x3x16xi8, "dram">) {
  // CHECK: tile.conv2d %{{.*}}, %{{.*}}, %{{.*}} border %{{.*}} : memref<8x1x16xi32, "dram"> to %{{.*}} {outside = -5 : i64, {{.*}}padding = array<i64: 1, 1, 1, 1>
  tile.conv2d %x, %w, %b border %e : memref<8x1x16xi32, "dram"> to %y {outside = -5, strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x2x3x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x2x3x16xi8, "dram">
  func.return
}

// CHECK-LABEL: func.func @grouped_swish(
func.func @grouped_swish(%x: memref<1x4x1x9x16xi8, "dram">, %w: memref<2x2x1x1x16x16xi8, "dram">, %b: memref<2x16xi32, "dram">, %k: memref<7x2x16xi32, "dram">, %y: memref<1x2x1x9x16xi8, "dram">) {
  // CHECK: tile.conv2d %{{.*}}, %{{.*}}, %{{.*}} swish %{{.*}} : memref<7x2x16xi32, "dram"> to %{{.*}} {groups = 2 : i64, {{.*}}, low = -300 : i64, high = 300 : i64, swish = array<i64: 4, -128, 127>}
  tile.conv2d %x, %w, %b swish %k : memref<7x2x16xi32, "dram"> to %y {groups = 2, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = -300, high = 300, swish = array<i64: 4, -128, 127>} : memref<1x4x1x9x16xi8, "dram">, memref<2x2x1x1x16x16xi8, "dram">, memref<2x16xi32, "dram"> to memref<1x2x1x9x16xi8, "dram">
  func.return
}

// CHECK-LABEL: func.func @by_channel(
func.func @by_channel(%x: memref<1x1x2x3x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %e: memref<8x1x16xi32, "dram">, %s: memref<1x16xi32, "dram">, %y: memref<1x1x2x3x16xi8, "dram">) {
  // CHECK: tile.conv2d %{{.*}}, %{{.*}}, %{{.*}} border %{{.*}} : memref<8x1x16xi32, "dram"> shifts %{{.*}} : memref<1x16xi32, "dram"> to %{{.*}} {outside = -5 : i64,
  tile.conv2d %x, %w, %b border %e : memref<8x1x16xi32, "dram"> shifts %s : memref<1x16xi32, "dram"> to %y {outside = -5, strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, shift = 0, low = 0, high = 127} : memref<1x1x2x3x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x2x3x16xi8, "dram">
  func.return
}
