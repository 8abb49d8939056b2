// RUN: ceras-opt %s --convert-tile-to-vta | filecheck %s
// RUN: ceras-opt %s --convert-tile-to-vta --convert-tile-to-vta="board=de10nano" | filecheck %s
// RUN: ceras-opt %s --convert-tile-to-vta | ceras-opt | filecheck %s
// RUN: ceras-opt %s -t vta | filecheck %s --check-prefix=TEXT
// RUN: ceras-opt %s -t 'vta{board=de10nano}' | filecheck %s --check-prefix=TEXT
// RUN: sed 's/mem.arena/unplaced/' %s | not ceras-opt --convert-tile-to-vta 2>&1 | filecheck %s --check-prefix=UNPLACED

// TEXT:      ; launch 0
// TEXT-NEXT: .uops 256
// TEXT:      load.uop
// UNPLACED: values have no addresses yet: run allocate-blocks first

// The launch and its kernel stay. The input is at byte 256 (vector 16), the bias at 512 (8), the
// result at 768 (48); micro-ops follow the arena of 1024 bytes. A row above and one below the
// input is padding; two columns on the right are outside.
// CHECK:       mem.launch @kernel
// CHECK:       func.func @kernel
// CHECK:       vta.program @launch_0 uops at 256 dense<{{.*}}> : tensor<{{.*}}x3xi16> {
// CHECK-NEXT:    vta.load uop sram 0 dram 256
// CHECK-NEXT:    vta.load inp sram 0 dram 16 size [3, 3] stride 3 pad [1, 1, 0, 1]
// CHECK-NEXT:    vta.load acc sram 0 dram 8 size [1, 1] stride 1
// CHECK-NEXT:    vta.load wgt sram 0 dram 0 size [1, 1] stride 1 push_next
// CHECK-NEXT:    vta.gemm reset uops [{{.*}}] iter [1, 12] dst [0, 1]
// CHECK-NEXT:    vta.gemm uops [{{.*}}] iter [3, 4] dst [4, 1] src [4, 1] pop_prev
// A bias vector is added to all positions: its factors are zero.
// CHECK-NEXT:    vta.alu add uops [{{.*}}] iter [1, 12] dst [0, 1]{{$}}
// A shift by 20 takes two steps, 15 and 5.
// CHECK-NEXT:    vta.alu shr {{.*}} imm 15
// CHECK-NEXT:    vta.alu shr {{.*}} imm 5 push_next
// The store takes three of four columns, row by row.
// CHECK-NEXT:    vta.store sram 1 dram 48 size [1, 3] stride 3 pop_prev
// CHECK-NEXT:    vta.store sram 5 dram 51 size [1, 3] stride 3
// CHECK-NEXT:    vta.store sram 9 dram 54 size [1, 3] stride 3 push_prev
// CHECK-NEXT:    vta.load uop {{.*}} pop_next
// CHECK-NEXT:    vta.finish
// CHECK-NEXT:  }
func.func @main(%x: tensor<3x3x16x!quant.uniform<i8:f32, 0.5>> {mem.block = #mem.block<id = 1, offset = 256, size = 144>}) -> tensor<3x3x16x!quant.uniform<i8:f32, 0.5>> attributes {mem.arena = #mem.arena<size = 1024, alignment = 256>} {
  %w = graph.constant dense<1> : tensor<1x16x16xi8> {mem.block = #mem.block<id = 0, offset = 0, size = 256>} : tensor<1x16x16x!quant.uniform<i8:f32, 0.5>>
  %b = graph.constant dense<1> : tensor<1x16xi32> {mem.block = #mem.block<id = 2, offset = 512, size = 64>} : tensor<1x16x!quant.uniform<i32:f32, 0.5>>
  %y = mem.launch @kernel(%x, %w, %b) {mem.block = #mem.block<id = 3, offset = 768, size = 144>} : (tensor<3x3x16x!quant.uniform<i8:f32, 0.5>>, tensor<1x16x16x!quant.uniform<i8:f32, 0.5>>, tensor<1x16x!quant.uniform<i32:f32, 0.5>>) -> tensor<3x3x16x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<3x3x16x!quant.uniform<i8:f32, 0.5>>
}

func.func @kernel(%x: memref<3x3x16xi8, "dram">, %w: memref<1x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<3x3x16xi8, "dram">) {
  %c0 = arith.constant 0 : index
  %cm1 = arith.constant -1 : index
  %bias = memref.alloc() : memref<1x1x16xi32, "acc">
  %acc = memref.alloc() : memref<3x4x1x16xi32, "acc">
  %inp = memref.alloc() : memref<5x4x1x16xi8, "inp">
  %wgt = memref.alloc() : memref<1x16x16xi8, "wgt">
  tile.load %x[%cm1, %c0] to %inp[] {box = array<i64: 5, 4>} : memref<3x3x16xi8, "dram"> to memref<5x4x1x16xi8, "inp">
  tile.load %b[%c0] to %bias[] {box = array<i64: 1, 1>} : memref<1x16xi32, "dram"> to memref<1x1x16xi32, "acc">
  tile.load %w[%c0] to %wgt[] {box = array<i64: 1, 1>} : memref<1x16x16xi8, "dram"> to memref<1x16x16xi8, "wgt">
  tile.clear %acc[] {extents = array<i64: 12>} : memref<3x4x1x16xi32, "acc">
  tile.gemm %acc[], %inp[], %wgt[] {extents = array<i64: 3, 4>, acc_strides = array<i64: 4, 1>, inp_strides = array<i64: 4, 1>, wgt_strides = array<i64: 0, 0>} : memref<3x4x1x16xi32, "acc">, memref<5x4x1x16xi8, "inp">, memref<1x16x16xi8, "wgt">
  tile.alu add %acc[] with %bias[] : memref<1x1x16xi32, "acc"> {extents = array<i64: 12>, target_strides = array<i64: 1>, source_strides = array<i64: 0>} : memref<3x4x1x16xi32, "acc">
  tile.alu shr %acc[] {extents = array<i64: 12>, target_strides = array<i64: 1>, immediate = 20} : memref<3x4x1x16xi32, "acc">
  tile.store %acc[] to %y[%c0, %c0] {box = array<i64: 3, 4>} : memref<3x4x1x16xi32, "acc"> to memref<3x3x16xi8, "dram">
  func.return
}
