// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @f(%x: memref<4x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{a view keeps memory, element type and size, got memref<4x16xi8, "dram"> to memref<3x16xi8, "dram">}}
  %v = tile.view %x : memref<4x16xi8, "dram"> to memref<3x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<2x4x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{ring must be in memory inp or wgt or acc}}
  %v = tile.rotate %x : memref<2x4x16xi8, "dram"> to memref<4x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<2x4x1x16xi8, "inp">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{a buffer of ring memref<2x4x1x16xi8, "inp"> cannot be memref<5x1x16xi8, "inp">}}
  %v = tile.rotate %x : memref<2x4x1x16xi8, "inp"> to memref<5x1x16xi8, "inp">
  func.return
}

// -----

func.func @f(%x: memref<1x6x8x16xi8, "dram">, %t: memref<4x1x16xi32, "inp">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{target must hold vectors of rows x lanes x i8 in inp, got memref<4x1x16xi32, "inp">}}
  tile.load %x[%i, %i, %i] to %t[] {box = array<i64: 1, 1>} : memref<1x6x8x16xi8, "dram"> to memref<4x1x16xi32, "inp">
  func.return
}

// -----

func.func @no_rows(%t: memref<16xi32, "acc">) {
  // expected-error@+1 {{target must hold vectors of rows x lanes x i32 in acc, got memref<16xi32, "acc">}}
  tile.clear %t[] {extents = array<i64: 1>} : memref<16xi32, "acc">
  func.return
}

// -----

func.func @narrow(%x: memref<1x6x8x8xi8, "dram">, %t: memref<4x1x16xi8, "inp">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{3 indices of memref<1x6x8x8xi8, "dram"> do not select a vector of memref<4x1x16xi8, "inp">}}
  tile.load %x[%i, %i, %i] to %t[] {box = array<i64: 1, 1>} : memref<1x6x8x8xi8, "dram"> to memref<4x1x16xi8, "inp">
  func.return
}

// -----

func.func @one_row(%x: memref<1x6x8x16xi8, "dram">, %t: memref<4x2x16xi8, "inp">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{3 indices of memref<1x6x8x16xi8, "dram"> do not select a vector of memref<4x2x16xi8, "inp">}}
  tile.load %x[%i, %i, %i] to %t[] {box = array<i64: 1, 1>} : memref<1x6x8x16xi8, "dram"> to memref<4x2x16xi8, "inp">
  func.return
}

// -----

func.func @gemm_inputs(%a: memref<4x2x16xi32, "acc">, %x: memref<4x2x8xi8, "inp">, %w: memref<1x16x16xi8, "wgt">) {
  // expected-error@+1 {{vectors must be (rows, inputs) . (outputs, inputs) to (rows, outputs), got (2, 8) . (16, 16) to (2, 16)}}
  tile.gemm %a[], %x[], %w[] {extents = array<i64: 4>, acc_strides = array<i64: 1>, inp_strides = array<i64: 1>, wgt_strides = array<i64: 0>} : memref<4x2x16xi32, "acc">, memref<4x2x8xi8, "inp">, memref<1x16x16xi8, "wgt">
  func.return
}

// -----

func.func @gemm_rows(%a: memref<4x1x8xi32, "acc">, %x: memref<4x2x8xi8, "inp">, %w: memref<1x8x8xi8, "wgt">) {
  // expected-error@+1 {{got (2, 8) . (8, 8) to (1, 8)}}
  tile.gemm %a[], %x[], %w[] {extents = array<i64: 4>, acc_strides = array<i64: 1>, inp_strides = array<i64: 1>, wgt_strides = array<i64: 0>} : memref<4x1x8xi32, "acc">, memref<4x2x8xi8, "inp">, memref<1x8x8xi8, "wgt">
  func.return
}

// -----

func.func @alu_vectors(%a: memref<4x2x8xi32, "acc">, %b: memref<4x1x8xi32, "acc">) {
  // expected-error@+1 {{source must have vectors of (2, 8), got (1, 8)}}
  tile.alu add %a[] with %b[] : memref<4x1x8xi32, "acc"> {extents = array<i64: 4>, target_strides = array<i64: 1>, source_strides = array<i64: 1>} : memref<4x2x8xi32, "acc">
  func.return
}

// -----

func.func @wide_weights(%x: memref<1x1x5x5x8xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x8xi32, "dram">, %y: memref<1x1x3x3x8xi8, "dram">) {
  // expected-error@+1 {{weights must have shape (1, 1, 3, 3, 8, 8), got (1, 1, 3, 3, 16, 16)}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x5x5x8xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x8xi32, "dram"> to memref<1x1x3x3x8xi8, "dram">
  func.return
}

// -----

func.func @bias_without_rows(%x: memref<1x1x5x5x2x8xi8, "dram">, %w: memref<1x1x3x3x8x8xi8, "dram">, %b: memref<1x8xi32, "dram">, %y: memref<1x1x3x3x2x8xi8, "dram">) {
  // expected-error@+1 {{bias must have shape (1, 2, 8), got (1, 8)}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x5x5x2x8xi8, "dram">, memref<1x1x3x3x8x8xi8, "dram">, memref<1x8xi32, "dram"> to memref<1x1x3x3x2x8xi8, "dram">
  func.return
}

// -----

func.func @pooled_lanes(%x: memref<1x1x2x2x8xi8, "dram">, %i: memref<16x16xi8, "dram">, %y: memref<1x1x1x1x8xi8, "dram">) {
  // expected-error@+1 {{identity must have shape (8, 8), got (16, 16)}}
  tile.max_pool %x, %i to %y {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>} : memref<1x1x2x2x8xi8, "dram">, memref<16x16xi8, "dram"> to memref<1x1x1x1x8xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x6x8x16xi8, "dram">, %t: memref<6x8x1x16xi8, "inp">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{2 indices of memref<1x6x8x16xi8, "dram"> do not select a vector of memref<6x8x1x16xi8, "inp">}}
  tile.load %x[%i, %i] to %t[] {box = array<i64: 1, 1>} : memref<1x6x8x16xi8, "dram"> to memref<6x8x1x16xi8, "inp">
  func.return
}

// -----

func.func @f(%x: memref<1x6x8x16xi8, "dram">, %t: memref<6x8x1x16xi8, "inp">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{target of 2 dimensions of vectors got 3 indices}}
  tile.load %x[%i, %i, %i] to %t[%i, %i, %i] {box = array<i64: 1, 1>} : memref<1x6x8x16xi8, "dram"> to memref<6x8x1x16xi8, "inp">
  func.return
}

// -----

func.func @f(%x: memref<1x6x8x16xi8, "dram">, %t: memref<6x8x1x16xi8, "inp">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{a box of 7x8 vectors does not fit}}
  tile.load %x[%i, %i, %i] to %t[] {box = array<i64: 7, 8>} : memref<1x6x8x16xi8, "dram"> to memref<6x8x1x16xi8, "inp">
  func.return
}

// -----

func.func @f(%x: memref<1x6x8x16xi8, "dram">, %t: memref<6x8x1x16xi8, "inp">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{box must be rows and columns of}}
  tile.load %x[%i, %i, %i] to %t[] {box = array<i64: 7>} : memref<1x6x8x16xi8, "dram"> to memref<6x8x1x16xi8, "inp">
  func.return
}

// -----

func.func @f(%x: memref<1x6x8x16xi8, "dram">, %t: memref<6x8x1x16xi8, "inp">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{row_step must be at least 1, got 0}}
  tile.load %x[%i, %i, %i] to %t[] {box = array<i64: 1, 1>, row_step = 0} : memref<1x6x8x16xi8, "dram"> to memref<6x8x1x16xi8, "inp">
  func.return
}

// -----

func.func @f(%x: memref<1x6x8x16xi8, "dram">, %t: memref<4x8x1x16xi32, "acc">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{a load keeps the element type}}
  tile.load %x[%i, %i, %i] to %t[] {box = array<i64: 1, 1>} : memref<1x6x8x16xi8, "dram"> to memref<4x8x1x16xi32, "acc">
  func.return
}

// -----

func.func @f(%x: memref<6x8x1x16xi8, "inp">, %t: memref<6x8x1x16xi8, "inp">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{expected a buffer in memory dram}}
  tile.load %x[%i, %i] to %t[] {box = array<i64: 1, 1>} : memref<6x8x1x16xi8, "inp"> to memref<6x8x1x16xi8, "inp">
  func.return
}

// -----

func.func @f(%x: memref<1x6x8x16xi8, "dram">, %t: memref<6x8x1x16xi8, "inp">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{source must be in memory acc}}
  tile.store %t[] to %x[%i, %i, %i] {box = array<i64: 1, 1>} : memref<6x8x1x16xi8, "inp"> to memref<1x6x8x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x6x8x16xi32, "dram">, %t: memref<4x8x1x16xi32, "acc">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{a store writes i8, got memref<1x6x8x16xi32, "dram">}}
  tile.store %t[] to %x[%i, %i, %i] {box = array<i64: 1, 1>} : memref<4x8x1x16xi32, "acc"> to memref<1x6x8x16xi32, "dram">
  func.return
}

// -----

func.func @f(%t: memref<4x8x1x16xi32, "acc">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{target has 32 vectors, the box reaches 33}}
  tile.clear %t[] {extents = array<i64: 33>} : memref<4x8x1x16xi32, "acc">
  func.return
}

// -----

func.func @f(%t: memref<4x8x1x16xi32, "acc">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{extents must be at least 1, got [0]}}
  tile.clear %t[] {extents = array<i64: 0>} : memref<4x8x1x16xi32, "acc">
  func.return
}

// -----

func.func @f(%a: memref<4x8x1x16xi32, "acc">, %x: memref<6x8x1x16xi8, "inp">, %w: memref<9x16x16xi8, "wgt">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{wgt needs a stride of at least 0 for each of 1 loops, got [0, 0]}}
  tile.gemm %a[], %x[], %w[] {extents = array<i64: 4>, acc_strides = array<i64: 1>, inp_strides = array<i64: 1>, wgt_strides = array<i64: 0, 0>} : memref<4x8x1x16xi32, "acc">, memref<6x8x1x16xi8, "inp">, memref<9x16x16xi8, "wgt">
  func.return
}

// -----

func.func @f(%a: memref<4x8x1x16xi32, "acc">, %x: memref<6x8x1x16xi8, "inp">, %w: memref<9x16x16xi8, "wgt">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{inp has 48 vectors, the box reaches 49}}
  tile.gemm %a[], %x[], %w[] {extents = array<i64: 4>, acc_strides = array<i64: 1>, inp_strides = array<i64: 16>, wgt_strides = array<i64: 0>} : memref<4x8x1x16xi32, "acc">, memref<6x8x1x16xi8, "inp">, memref<9x16x16xi8, "wgt">
  func.return
}

// -----

func.func @f(%a: memref<4x8x1x16xi32, "acc">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{Expected `add`, `max`, `min`, or `shr`.}}
  tile.alu mul %a[] {extents = array<i64: 4>, target_strides = array<i64: 1>, immediate = 1} : memref<4x8x1x16xi32, "acc">
  func.return
}

// -----

func.func @f(%a: memref<4x8x1x16xi32, "acc">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{expected either a source or an immediate}}
  tile.alu add %a[] {extents = array<i64: 4>, target_strides = array<i64: 1>} : memref<4x8x1x16xi32, "acc">
  func.return
}

// -----

func.func @f(%a: memref<4x8x1x16xi32, "acc">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{source_strides belong to a source}}
  tile.alu add %a[] {extents = array<i64: 4>, target_strides = array<i64: 1>, source_strides = array<i64: 1>, immediate = 1} : memref<4x8x1x16xi32, "acc">
  func.return
}

// -----

func.func @f(%x: memref<1x1x5x5x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x5x5x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{output must have shape (1, 1, 3, 3, 16), got (1, 1, 5, 5, 16)}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x5x5x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x5x5x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x1x5x5x16xi8, "dram">, %w: memref<1x2x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{weights must have shape (1, 1, 3, 3, 16, 16), got (1, 2, 3, 3, 16, 16)}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x5x5x16xi8, "dram">, memref<1x2x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x1x5x5x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi8, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{elements must be i32, got memref<1x16xi8, "dram">}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x5x5x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi8, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x1x5x5x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x1x16x16xi8, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  // expected-error@+1 {{a radix and digits of a bias or a border belong together}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x5x5x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x1x16x16xi8, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x1x5x5x1x16xi8, "inp">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{operands must be in memory dram}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x5x5x1x16xi8, "inp">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x5x5x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{input must be [N, C/B, H, W, B] or [N/R, C/B, H, W, R, B], got memref<1x5x5x16xi8, "dram">}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x5x5x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x1x5x5x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{strides must be 2 integers, got [0, 1]}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 0, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x5x5x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x1x5x5x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{shift must be in [-31, 31], got 32}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 32, low = 0, high = 127} : memref<1x1x5x5x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x1x5x5x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{[low, high] must be a range of int8, got [5, 4]}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 5, high = 4} : memref<1x1x5x5x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x1x5x5x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{residual_shift must be in [0, 31], got -1}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127, residual_shift = -1} : memref<1x1x5x5x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x1x5x5x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{kblock must be at least 1, got 0}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127, schedule = #tile.schedule<rows = 1, columns = 1, kblock = 0, nblock = 1, inp_stages = 1, wgt_stages = 1, acc_stages = 1, order = nmk>} : memref<1x1x5x5x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @f(%x: memref<1x1x5x5x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  %i = arith.constant 0 : index
  // expected-error@+1 {{Expected `nmk`, `mnk`, `alg1`, `alg2`, or `alg3`.}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127, schedule = #tile.schedule<rows = 1, columns = 1, kblock = 1, nblock = 1, inp_stages = 1, wgt_stages = 1, acc_stages = 1, order = kmn>} : memref<1x1x5x5x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @pool_of_another_size(%x: memref<1x2x8x8x16xi8, "dram">, %i: memref<16x16xi8, "dram">, %y: memref<1x2x5x4x16xi8, "dram">) {
  // expected-error@+1 {{output must have shape (1, 2, 4, 4, 16), got (1, 2, 5, 4, 16)}}
  tile.max_pool %x, %i to %y {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 0, 0>} : memref<1x2x8x8x16xi8, "dram">, memref<16x16xi8, "dram"> to memref<1x2x5x4x16xi8, "dram">
  func.return
}

// -----

func.func @pool_on_chip(%x: memref<1x2x8x8x1x16xi8, "inp">, %i: memref<16x16xi8, "dram">, %y: memref<1x2x4x4x16xi8, "dram">) {
  // expected-error@+1 {{operands must be in memory dram, got memref<1x2x8x8x1x16xi8, "inp">}}
  tile.max_pool %x, %i to %y {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : memref<1x2x8x8x1x16xi8, "inp">, memref<16x16xi8, "dram"> to memref<1x2x4x4x16xi8, "dram">
  func.return
}

// -----

func.func @drain_too_much(%x: memref<1x1x1x1x16xi8, "dram">, %w: memref<1x1x1x1x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x1x1x16xi8, "dram">) {
  // expected-error@+1 {{drain must be in [0, nblock = 1], got 2}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127, schedule = #tile.schedule<rows = 1, columns = 1, kblock = 1, nblock = 1, inp_stages = 1, wgt_stages = 1, acc_stages = 1, order = nmk, drain = 2>} : memref<1x1x1x1x16xi8, "dram">, memref<1x1x1x1x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x1x1x16xi8, "dram">
  func.return
}

// -----

func.func @groups(%x: memref<1x4x1x9x16xi8, "dram">, %w: memref<2x2x1x1x16x16xi8, "dram">, %b: memref<2x16xi32, "dram">, %k: memref<7x2x16xi32, "dram">, %y: memref<1x2x1x9x16xi8, "dram">) {
  // expected-error@+1 {{groups must divide 4 input and 2 output blocks, got 3}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 3, shift = 7, low = 0, high = 127} : memref<1x4x1x9x16xi8, "dram">, memref<2x2x1x1x16x16xi8, "dram">, memref<2x16xi32, "dram"> to memref<1x2x1x9x16xi8, "dram">
  func.return
}

// -----

func.func @no_bends(%x: memref<1x4x1x9x16xi8, "dram">, %w: memref<2x2x1x1x16x16xi8, "dram">, %b: memref<2x16xi32, "dram">, %k: memref<7x2x16xi32, "dram">, %y: memref<1x2x1x9x16xi8, "dram">) {
  // expected-error@+1 {{bends and 'swish' belong together}}
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 2, shift = 7, low = 0, high = 127, swish = array<i64: 4, 0, 127>} : memref<1x4x1x9x16xi8, "dram">, memref<2x2x1x1x16x16xi8, "dram">, memref<2x16xi32, "dram"> to memref<1x2x1x9x16xi8, "dram">
  func.return
}

// -----

func.func @short_swish(%x: memref<1x4x1x9x16xi8, "dram">, %w: memref<2x2x1x1x16x16xi8, "dram">, %b: memref<2x16xi32, "dram">, %k: memref<7x2x16xi32, "dram">, %y: memref<1x2x1x9x16xi8, "dram">) {
  // expected-error@+1 {{swish must be shift, low, high, got array<i64: 4, 0>}}
  tile.conv2d %x, %w, %b swish %k : memref<7x2x16xi32, "dram"> to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 2, shift = 7, low = 0, high = 127, swish = array<i64: 4, 0>} : memref<1x4x1x9x16xi8, "dram">, memref<2x2x1x1x16x16xi8, "dram">, memref<2x16xi32, "dram"> to memref<1x2x1x9x16xi8, "dram">
  func.return
}

// -----

func.func @sixteen_bits(%x: memref<1x4x1x9x16xi8, "dram">, %w: memref<2x2x1x1x16x16xi8, "dram">, %b: memref<2x16xi32, "dram">, %k: memref<7x2x16xi32, "dram">, %y: memref<1x2x1x9x16xi8, "dram">) {
  // expected-error@+1 {{[low, high] must be a range of int16, got [0, 32768]}}
  tile.conv2d %x, %w, %b swish %k : memref<7x2x16xi32, "dram"> to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 2, shift = 7, low = 0, high = 32768, swish = array<i64: 4, 0, 127>} : memref<1x4x1x9x16xi8, "dram">, memref<2x2x1x1x16x16xi8, "dram">, memref<2x16xi32, "dram"> to memref<1x2x1x9x16xi8, "dram">
  func.return
}

// -----

func.func @three_digits(%x: memref<1x2x8x8x16xi8, "dram">, %w: memref<3x16x16xi8, "dram">, %b: memref<16xi32, "dram">, %y: memref<1x2x4x4x16xi8, "dram">) {
  // expected-error@+1 {{expected one or two tiles of weights, got 3}}
  tile.average_pool %x, %w, %b to %y {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, addend = 2, shift = 2, low = -128, high = 127} : memref<1x2x8x8x16xi8, "dram">, memref<3x16x16xi8, "dram">, memref<16xi32, "dram"> to memref<1x2x4x4x16xi8, "dram">
  func.return
}

// -----

func.func @left_average(%x: memref<1x2x8x8x16xi8, "dram">, %w: memref<1x16x16xi8, "dram">, %b: memref<16xi32, "dram">, %y: memref<1x2x4x4x16xi8, "dram">) {
  // expected-error@+1 {{shift must be in [0, 31], got -1}}
  tile.average_pool %x, %w, %b to %y {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, addend = 2, shift = -1, low = -128, high = 127} : memref<1x2x8x8x16xi8, "dram">, memref<1x16x16xi8, "dram">, memref<16xi32, "dram"> to memref<1x2x4x4x16xi8, "dram">
  func.return
}

// -----

func.func @wide_average(%x: memref<1x2x8x8x16xi8, "dram">, %w: memref<1x16x16xi8, "dram">, %b: memref<16xi32, "dram">, %y: memref<1x2x4x4x16xi8, "dram">) {
  // expected-error@+1 {{[low, high] must be a range of int8, got [-129, 127]}}
  tile.average_pool %x, %w, %b to %y {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, addend = 2, shift = 2, low = -129, high = 127} : memref<1x2x8x8x16xi8, "dram">, memref<1x16x16xi8, "dram">, memref<16xi32, "dram"> to memref<1x2x4x4x16xi8, "dram">
  func.return
}

// -----

func.func @border_above_zero(%x: memref<1x1x2x2x16xi8, "dram">, %i: memref<16x16xi8, "dram">, %y: memref<1x1x1x1x16xi8, "dram">) {
  // expected-error@+1 {{least must be in [-128, 0], got 1}}
  tile.max_pool %x, %i to %y {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, least = 1} : memref<1x1x2x2x16xi8, "dram">, memref<16x16xi8, "dram"> to memref<1x1x1x1x16xi8, "dram">
  func.return
}

// -----

func.func @no_border(%x: memref<1x1x2x3x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x2x3x16xi8, "dram">) {
  // expected-error@+1 {{a border and an 'outside' other than 0 belong together}}
  tile.conv2d %x, %w, %b to %y {outside = -5, strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x2x3x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x2x3x16xi8, "dram">
  func.return
}

// -----

func.func @outside(%x: memref<1x1x2x3x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x2x3x16xi8, "dram">) {
  // expected-error@+1 {{outside must be int8, got 128}}
  tile.conv2d %x, %w, %b to %y {outside = 128, strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x2x3x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x2x3x16xi8, "dram">
  func.return
}

// -----

func.func @narrow_border(%x: memref<1x1x2x3x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %e: memref<8x2x16xi32, "dram">, %y: memref<1x1x2x3x16xi8, "dram">) {
  // expected-error@+1 {{border must have shape (8, 1, 16), got (8, 2, 16)}}
  tile.conv2d %x, %w, %b border %e : memref<8x2x16xi32, "dram"> to %y {outside = -5, strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x2x3x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x2x3x16xi8, "dram">
  func.return
}

// -----

func.func @too_many_shifts(%x: memref<1x1x5x5x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %s: memref<2x16xi32, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  // expected-error@+1 {{shifts must have shape (1, 16), got (2, 16)}}
  tile.conv2d %x, %w, %b shifts %s : memref<2x16xi32, "dram"> to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 0, low = 0, high = 127} : memref<1x1x5x5x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @narrow_shifts(%x: memref<1x1x5x5x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %s: memref<1x16xi8, "dram">, %y: memref<1x1x3x3x16xi8, "dram">) {
  // expected-error@+1 {{elements must be i32, got memref<1x16xi8, "dram">}}
  tile.conv2d %x, %w, %b shifts %s : memref<1x16xi8, "dram"> to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 0, low = 0, high = 127} : memref<1x1x5x5x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x3x3x16xi8, "dram">
  func.return
}

// -----

func.func @maximum_fields(%x: memref<1x1x4x4x16xi8, "dram">, %w: memref<1x1x1x1x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x2x2x16xi8, "dram">) {
  // expected-error@+1 {{maximum must be kernel, strides and padding before, got}}
  tile.conv2d %x, %w, %b to %y {maximum = array<i64: 3, 3>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 0, low = 0, high = 127} : memref<1x1x4x4x16xi8, "dram">, memref<1x1x1x1x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x2x2x16xi8, "dram">
  func.return
}

// -----

func.func @maximum_past_the_next_window(%x: memref<1x1x4x4x16xi8, "dram">, %w: memref<1x1x1x1x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x2x2x16xi8, "dram">) {
  // expected-error@+1 {{a maximum [3, 3, 2, 2, 0, 0] of 4 x 4 results cannot be computed in place}}
  tile.conv2d %x, %w, %b to %y {maximum = array<i64: 3, 3, 2, 2, 0, 0>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 0, low = 0, high = 127} : memref<1x1x4x4x16xi8, "dram">, memref<1x1x1x1x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x2x2x16xi8, "dram">
  func.return
}
