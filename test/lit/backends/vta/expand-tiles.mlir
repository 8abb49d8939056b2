// RUN: ceras-opt %s --expand-tiles --split-input-file | filecheck %s
// RUN: ceras-opt %s --expand-tiles --expand-tiles --split-input-file | filecheck %s

// Blocks of 3 x 8 positions, 2 input and 3 output vectors; the fourth and fifth output vector
// are a block of their own. Loads begin at row and column -1, which is padding.
// CHECK-LABEL: func.func @conv(
// CHECK:         %[[BIAS:.*]] = memref.alloc() : memref<5x1x16xi32, "acc">
// CHECK-NEXT:    %[[INP:.*]] = memref.alloc() : memref<2x2x5x10x1x16xi8, "inp">
// CHECK-NEXT:    %[[WGT:.*]] = memref.alloc() : memref<2x54x16x16xi8, "wgt">
// CHECK-NEXT:    %[[RING:.*]] = memref.alloc() : memref<2x3x3x8x1x16xi32, "acc">
// CHECK-NEXT:    tile.load %{{.*}} to %[[BIAS]][]
// CHECK-NEXT:    scf.for %[[Y:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:      %[[ACC:.*]] = tile.rotate %[[RING]]
// CHECK-NEXT:      tile.clear %[[ACC]][] {extents = array<i64: 72>}
// CHECK-NEXT:      scf.for %[[K:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:        %[[X:.*]] = tile.rotate %[[INP]]
// CHECK-NEXT:        %[[W:.*]] = tile.rotate %[[WGT]]
// CHECK-NEXT:        %[[ROW:.*]] = arith.subi %[[Y]], %{{.*}} : index
// CHECK-NEXT:        scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:          %[[C:.*]] = arith.addi %[[K]], %[[I]] : index
// CHECK-NEXT:          tile.load %{{.*}}[%{{.*}}, %[[C]], %[[ROW]], %{{.*}}] to %[[X]][%[[I]]] {box = array<i64: 5, 10>}
// CHECK-NEXT:        }
// CHECK-NEXT:        %[[AT:.*]] = arith.muli %[[K]]
// CHECK-NEXT:        tile.load %{{.*}}[%{{.*}}, %[[AT]]] to %[[W]][] {box = array<i64: 3, 18>}
// With three output vectors or more, one GEMM runs all reductions of a block.
// CHECK-NEXT:        tile.gemm %[[ACC]][], %[[X]][], %[[W]][] {extents = array<i64: 3, 8, 2, 3, 3, 3>, acc_strides = array<i64: 8, 1, 0, 0, 0, 24>, inp_strides = array<i64: 10, 1, 50, 10, 1, 0>, wgt_strides = array<i64: 0, 0, 9, 3, 1, 18>}
// CHECK-NEXT:      }
// CHECK-NEXT:      tile.alu add %[[ACC]][] with %[[BIAS]][] : memref<5x1x16xi32, "acc"> {extents = array<i64: 3, 24>, target_strides = array<i64: 24, 1>, source_strides = array<i64: 1, 0>}
// CHECK-NEXT:      tile.alu shr %[[ACC]][] {{.*}}immediate = 7
// CHECK-NEXT:      tile.alu max %[[ACC]][] {{.*}}immediate = 0
// CHECK-NEXT:      tile.alu min %[[ACC]][] {{.*}}immediate = 127
// CHECK-NEXT:      scf.for %[[O:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:        tile.store %[[ACC]][%[[O]]] to %{{.*}}[%{{.*}}, %[[O]], %[[Y]], %{{.*}}] {box = array<i64: 3, 8>}
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    scf.for
// With fewer, reductions are loops around it.
// CHECK:         tile.gemm %{{.*}}[], %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}], %{{.*}}[%{{.*}}] {extents = array<i64: 3, 8, 2>
// CHECK-NOT:     tile.conv2d
func.func @conv(%x: memref<1x4x6x8x16xi8, "dram">, %w: memref<5x4x3x3x16x16xi8, "dram">, %b: memref<5x16xi32, "dram">, %y: memref<1x5x6x8x16xi8, "dram">) {
  tile.conv2d %x, %w, %b to %y {schedule = #tile.schedule<rows = 3, columns = 8, kblock = 2, nblock = 3, inp_stages = 2, wgt_stages = 2, acc_stages = 2, order = nmk>, strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x4x6x8x16xi8, "dram">, memref<5x4x3x3x16x16xi8, "dram">, memref<5x16xi32, "dram"> to memref<1x5x6x8x16xi8, "dram">
  func.return
}

// -----

// One block: no loops over blocks. The residual comes in by a diagonal tile and is moved left
// before anything is added; shift 0 needs no operation.
// CHECK-LABEL: func.func @matmul_with_residual(
// CHECK:         %[[INP:.*]] = tile.rotate
// CHECK-NEXT:    %[[ACC:.*]] = tile.rotate
// CHECK-NEXT:    tile.clear %[[ACC]][] {extents = array<i64: 36>}
// CHECK-NEXT:    scf.for
// CHECK-NEXT:      tile.rotate
// CHECK-NEXT:      tile.load {{.*}} {box = array<i64: 1, 9>}
// CHECK-NEXT:      tile.gemm %[[ACC]][%{{.*}}], {{.*}} {extents = array<i64: 1, 9>
// CHECK-NEXT:    }
// CHECK-NEXT:    tile.alu shr %[[ACC]][] {{.*}}immediate = -2
// CHECK-NEXT:    tile.rotate
// CHECK-NEXT:    tile.load %{{.*}} to %[[INP]][] {box = array<i64: 4, 9>}
// CHECK-NEXT:    tile.load {{.*}} {box = array<i64: 4, 4>}
// Where positions are one row, the hardware's loops are K and M.
// CHECK-NEXT:    tile.gemm %[[ACC]][], %[[INP]][], {{.*}} {extents = array<i64: 4, 9, 4>
// CHECK-NEXT:    tile.alu add
// CHECK-NEXT:    tile.alu max
// CHECK-NEXT:    tile.alu min
// CHECK-NEXT:    tile.store
// CHECK-NEXT:    func.return
func.func @matmul_with_residual(%x: memref<1x4x1x9x16xi8, "dram">, %w: memref<4x4x1x1x16x16xi8, "dram">, %b: memref<4x16xi32, "dram">, %r: memref<1x4x1x9x16xi8, "dram">, %d: memref<16x16xi8, "dram">, %y: memref<1x4x1x9x16xi8, "dram">) {
  tile.conv2d %x, %w, %b residual %r, %d : memref<1x4x1x9x16xi8, "dram">, memref<16x16xi8, "dram"> to %y {schedule = #tile.schedule<rows = 1, columns = 9, kblock = 4, nblock = 4, inp_stages = 1, wgt_stages = 1, acc_stages = 1, order = mnk>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, residual_shift = 2, shift = 0, low = -128, high = 127} : memref<1x4x1x9x16xi8, "dram">, memref<4x4x1x1x16x16xi8, "dram">, memref<4x16xi32, "dram"> to memref<1x4x1x9x16xi8, "dram">
  func.return
}

// -----

// Without a schedule nothing is known about blocks.
// CHECK-LABEL: func.func @unscheduled(
// CHECK-NEXT:    tile.conv2d
func.func @unscheduled(%x: memref<1x4x1x9x16xi8, "dram">, %w: memref<1x4x1x1x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x1x9x16xi8, "dram">) {
  tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x4x1x9x16xi8, "dram">, memref<1x4x1x1x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x1x9x16xi8, "dram">
  func.return
}

// -----

// Inputs come in two K-blocks, with the first block of outputs, and stay for the second. Results
// leave one vector at a time. A bias that is one small number is an immediate.
// CHECK-LABEL: func.func @resident(
// CHECK-NOT:     memref<6x1x16xi32, "acc">
// CHECK:         %[[X:.*]] = tile.rotate
// CHECK-NEXT:    scf.for %[[N:.*]] = 
// CHECK-NEXT:      %[[ACC:.*]] = tile.rotate
// CHECK-NEXT:      tile.clear %[[ACC]][] {extents = array<i64: 27>}
// CHECK-NEXT:      scf.for %[[K:.*]] = 
// CHECK-NEXT:        %[[W:.*]] = tile.rotate
// CHECK-NEXT:        %[[FIRST:.*]] = arith.cmpi eq, %[[N]], %{{.*}} : index
// CHECK-NEXT:        scf.if %[[FIRST]] {
// CHECK-NEXT:          tile.load %{{.*}}[%{{.*}}, %[[K]], %{{.*}}] to %[[X]][%[[K]]] {box = array<i64: 2, 9>}
// CHECK-NEXT:        } else {
// CHECK-NEXT:        }
// CHECK-NEXT:        tile.load {{.*}} to %[[W]][] {box = array<i64: 3, 2>}
// CHECK-NEXT:        tile.gemm %[[ACC]][], %[[X]][%[[K]]], %[[W]][] {extents = array<i64: 2, 9, 3>
// CHECK-NEXT:      }
// CHECK-NEXT:      scf.for %[[I:.*]] = 
// CHECK-NEXT:        arith.addi
// CHECK-NEXT:        tile.alu add %[[ACC]][%[[I]]] {extents = array<i64: 9>, {{.*}}immediate = 64
// CHECK-NEXT:        tile.alu shr
// CHECK-NEXT:        tile.alu max
// CHECK-NEXT:        tile.alu min
// CHECK-NEXT:        arith.addi
// CHECK-NEXT:        tile.store %[[ACC]][%[[I]]] {{.*}} {box = array<i64: 1, 9>}
func.func @resident(%x: memref<1x4x1x9x16xi8, "dram">, %w: memref<6x4x1x1x16x16xi8, "dram">, %b: memref<6x16xi32, "dram">, %y: memref<1x6x1x9x16xi8, "dram">) {
  tile.conv2d %x, %w, %b to %y {schedule = #tile.schedule<rows = 1, columns = 9, kblock = 2, nblock = 3, inp_stages = 1, wgt_stages = 2, acc_stages = 2, order = mnk, resident, drain = 1>, uniform_bias = 64, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x4x1x9x16xi8, "dram">, memref<6x4x1x1x16x16xi8, "dram">, memref<6x16xi32, "dram"> to memref<1x6x1x9x16xi8, "dram">
  func.return
}

// -----

// S3's Algorithm 3: 16 positions at a time, weights of one output vector after the other, one
// instruction per 16x16x16 product; results leave when the accumulators of the M-block are full.
// CHECK-LABEL: func.func @alg3(
// CHECK:         tile.clear %[[ACC:.*]][] {extents = array<i64: 288>}
// CHECK-NEXT:    scf.for %[[M:.*]] = 
// CHECK-NEXT:      %[[X:.*]] = tile.rotate
// CHECK-NEXT:      tile.load {{.*}} to %[[X]][] {box = array<i64: 4, 16>}
// CHECK-NEXT:      scf.for %[[N:.*]] = 
// CHECK-NEXT:        %[[W:.*]] = tile.rotate
// CHECK-NEXT:        tile.load {{.*}} to %[[W]][] {box = array<i64: 1, 4>}
// CHECK-NEXT:        scf.for %[[K:.*]] = 
// CHECK-NEXT:          tile.gemm %[[ACC]][%[[N]], %[[M]]], %[[X]][%[[K]]], %[[W]][%{{.*}}, %[[K]]] {extents = array<i64: 16>
// CHECK:         tile.alu shr %[[ACC]][] {extents = array<i64: 288>
// CHECK:         tile.store %[[ACC]][] {{.*}} {box = array<i64: 6, 48>}
func.func @alg3(%x: memref<1x4x1x48x16xi8, "dram">, %w: memref<6x4x1x1x16x16xi8, "dram">, %b: memref<6x16xi32, "dram">, %y: memref<1x6x1x48x16xi8, "dram">) {
  tile.conv2d %x, %w, %b to %y {schedule = #tile.schedule<rows = 1, columns = 48, kblock = 4, nblock = 1, inp_stages = 2, wgt_stages = 2, acc_stages = 1, order = alg3>, uniform_bias = 0, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x4x1x48x16xi8, "dram">, memref<6x4x1x1x16x16xi8, "dram">, memref<6x16xi32, "dram"> to memref<1x6x1x48x16xi8, "dram">
  func.return
}

// -----

// Maximum pooling: vectors come in by the unit matrix; along rows in place, the neighbour that
// is itself written first; down columns into another buffer, from zero by an addition.
// CHECK-LABEL: func.func @max_pool(
// CHECK:         tile.load %{{.*}} to %[[X:.*]][] {box = array<i64: 9, 9>}
// CHECK-NEXT:    tile.clear %[[A:.*]][] {extents = array<i64: 81>}
// CHECK-NEXT:    tile.gemm %[[A]][], %[[X]][], %{{.*}}[] {extents = array<i64: 9, 9>
// CHECK-NEXT:    tile.alu max %[[A]][] with %[[A]][%{{.*}}, %[[TWO:.*]]] : {{.*}} {extents = array<i64: 9, 4>, target_strides = array<i64: 9, 2>
// CHECK-NEXT:    tile.alu max %[[A]][] with %[[A]][%{{.*}}, %[[ONE:.*]]] : {{.*}} {extents = array<i64: 9, 4>
// CHECK-NEXT:    %[[R:.*]] = tile.rotate
// CHECK-NEXT:    tile.clear %[[R]][] {extents = array<i64: 16>}
// CHECK-NEXT:    tile.alu add %[[R]][] with %[[A]][] : {{.*}} source_strides = array<i64: 18, 2>
// CHECK-NEXT:    tile.alu max %[[R]][] with %[[A]][%[[ONE]]]
// CHECK-NEXT:    tile.alu max %[[R]][] with %[[A]][%[[TWO]]]
// CHECK-NEXT:    tile.store %[[R]][]
func.func @max_pool(%x: memref<1x2x8x8x16xi8, "dram">, %i: memref<16x16xi8, "dram">, %y: memref<1x2x4x4x16xi8, "dram">) {
  tile.max_pool %x, %i to %y {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 0, 0>} : memref<1x2x8x8x16xi8, "dram">, memref<16x16xi8, "dram"> to memref<1x2x4x4x16xi8, "dram">
  func.return
}

// -----

// An average of entire planes: all 3 planes at once, a GEMM for each digit of the multiplier that
// iterates over positions, then planes. The first digit is shifted left before the second.
// CHECK-LABEL: func.func @average(
// CHECK:         tile.load %{{.*}} to %[[X:.*]][] {box = array<i64: 3, 6>}
// CHECK-NEXT:    tile.clear %[[A:.*]][] {extents = array<i64: 3>}
// CHECK-NEXT:    tile.gemm %[[A]][], %[[X]][], %{{.*}}[] {extents = array<i64: 6, 3>, acc_strides = array<i64: 0, 1>, inp_strides = array<i64: 1, 6>
// CHECK-NEXT:    tile.alu shr %[[A]][] {extents = array<i64: 3>, target_strides = array<i64: 1>, immediate = -7
// CHECK-NEXT:    tile.gemm
// CHECK-NEXT:    tile.alu add %[[A]][] with
// CHECK-NEXT:    tile.alu shr %[[A]][] {{.*}}immediate = 18
// CHECK-NEXT:    tile.alu max
// CHECK-NEXT:    tile.alu min
// CHECK-NEXT:    tile.store %[[A]][] to {{.*}} {box = array<i64: 1, 3>}
func.func @average(%x: memref<1x3x2x3x16xi8, "dram">, %w: memref<2x16x16xi8, "dram">, %b: memref<16xi32, "dram">, %y: memref<1x3x1x1x16xi8, "dram">) {
  tile.average_pool %x, %w, %b to %y {kernel = array<i64: 2, 3>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, addend = 65534, shift = 18, low = 0, high = 127} : memref<1x3x2x3x16xi8, "dram">, memref<2x16x16xi8, "dram">, memref<16xi32, "dram"> to memref<1x3x1x1x16xi8, "dram">
  func.return
}

// -----

// Two planes are too few for a GEMM over all positions: the same sum would be in the pipeline twice.
// CHECK-LABEL: func.func @average_of_two_planes(
// CHECK:         tile.clear %[[A:.*]][] {extents = array<i64: 2>}
// CHECK-NEXT:    scf.for
// CHECK-NEXT:      scf.for
// CHECK-NEXT:        tile.gemm %[[A]][], %{{.*}}[{{.*}}], %{{.*}}[] {extents = array<i64: 2>
func.func @average_of_two_planes(%x: memref<1x2x2x3x16xi8, "dram">, %w: memref<2x16x16xi8, "dram">, %b: memref<16xi32, "dram">, %y: memref<1x2x1x1x16xi8, "dram">) {
  tile.average_pool %x, %w, %b to %y {kernel = array<i64: 2, 3>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, addend = 65534, shift = 18, low = 0, high = 127} : memref<1x2x2x3x16xi8, "dram">, memref<2x16x16xi8, "dram">, memref<16xi32, "dram"> to memref<1x2x1x1x16xi8, "dram">
  func.return
}

// -----

// kn2row: the taps are loops around blocks of K, and of either operand only a tap's part is loaded.
// CHECK-LABEL: func.func @taps(
// CHECK:         %[[W:.*]] = tile.view %{{.*}} to memref<1x2x9x16x16xi8, "dram">
// CHECK:         tile.clear %[[A:.*]][]
// CHECK-NEXT:    scf.for %[[I:.*]] =
// CHECK-NEXT:      scf.for %[[J:.*]] =
// CHECK-NEXT:        scf.for %[[K:.*]] =
// CHECK:               tile.load %{{.*}}[%{{.*}}, %[[K]], %{{.*}}, %{{.*}}] to %[[X:.*]][] {box = array<i64: 8, 8>}
// CHECK:               tile.load %[[W]][%{{.*}}, %[[K]], %[[T:.*]]] to %[[F:.*]][] {box = array<i64: 1, 1>}
// CHECK:               tile.gemm %[[A]][], %[[X]][], %[[F]][] {extents = array<i64: 8, 8>
func.func @taps(%x: memref<1x2x8x8x16xi8, "dram">, %w: memref<1x2x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x8x8x16xi8, "dram">) {
  tile.conv2d %x, %w, %b to %y {schedule = #tile.schedule<rows = 8, columns = 8, kblock = 1, nblock = 1, inp_stages = 2, wgt_stages = 2, acc_stages = 1, order = nmk, kn2row>, strides = array<i64: 1, 1>, padding = array<i64: 2, 2, 2, 2>, dilations = array<i64: 2, 2>, shift = 7, low = 0, high = 127} : memref<1x2x8x8x16xi8, "dram">, memref<1x2x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x8x8x16xi8, "dram">
  func.return
}

// -----

// A border that counts as -128: minima on its rows and columns. With stride 1, maxima of five
// neighbours are made of those of two and of four.
// CHECK-LABEL: func.func @border(
// CHECK:         tile.load %{{.*}} to %[[X:.*]][] {box = array<i64: 8, 8>}
// CHECK:         tile.gemm %[[A:.*]][], %[[X]][]
// CHECK-NEXT:    tile.alu min %[[A]][] {extents = array<i64: 2, 8>, target_strides = array<i64: 8, 1>, immediate = -128
// CHECK-NEXT:    tile.alu min %[[A]][%{{.*}}] {extents = array<i64: 2, 8>,
// CHECK-NEXT:    tile.alu min %[[A]][] {extents = array<i64: 8, 2>,
// CHECK-NEXT:    tile.alu min %[[A]][%{{.*}}, %{{.*}}] {extents = array<i64: 8, 2>,
// CHECK-NEXT:    tile.alu max %[[A]][] with %[[A]][%{{.*}}, %{{.*}}] : {{.*}} {extents = array<i64: 8, 7>
// CHECK-NEXT:    tile.alu max %[[A]][] with %[[A]][%{{.*}}, %{{.*}}] : {{.*}} {extents = array<i64: 8, 5>
// CHECK-NEXT:    tile.alu max %[[A]][] with %[[A]][%{{.*}}, %{{.*}}] : {{.*}} {extents = array<i64: 8, 4>
// CHECK-NEXT:    %[[R:.*]] = tile.rotate
// CHECK-NEXT:    tile.alu max %[[A]][] with %[[A]][%{{.*}}] : {{.*}} {extents = array<i64: 7, 4>
// CHECK-NEXT:    tile.alu max
// CHECK-NEXT:    tile.alu max
// CHECK-NEXT:    tile.clear %[[R]][]
// CHECK-NEXT:    tile.alu add %[[R]][] with %[[A]][]
// CHECK-NEXT:    tile.store %[[R]][]
func.func @border(%x: memref<1x1x4x4x16xi8, "dram">, %i: memref<16x16xi8, "dram">, %y: memref<1x1x4x4x16xi8, "dram">) {
  tile.max_pool %x, %i to %y {kernel = array<i64: 5, 5>, strides = array<i64: 1, 1>, padding = array<i64: 2, 2, 2, 2>, least = -128} : memref<1x1x4x4x16xi8, "dram">, memref<16x16xi8, "dram"> to memref<1x1x4x4x16xi8, "dram">
  func.return
}

// -----

// What is around the input instead of zeros: 2 rows, 2 columns and 4 corners have constants, which are
// added after the products. In blocks of 3 of 6 rows the first and the last have a row at the edge.
// CHECK-LABEL: func.func @border(
// CHECK:         %[[EDGE:.*]] = memref.alloc() : memref<8x1x1x16xi32, "acc">
// CHECK:         tile.load %{{.*}} to %[[EDGE]][] {box = array<i64: 8, 1>}
// CHECK:         scf.for %[[Y:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK:           tile.clear %[[ACC:[a-z0-9_]*]]
// CHECK:           tile.gemm %[[ACC]]
// CHECK:           %[[TOP:.*]] = arith.cmpi eq, %[[Y]], %{{.*}} : index
// CHECK-NEXT:      scf.if %[[TOP]] {
// CHECK-NEXT:        tile.alu add %[[ACC]][] with %[[EDGE]][] : {{.*}} {extents = array<i64: 1, 8>, target_strides = array<i64: 24, 1>, source_strides = array<i64: 1, 0>}
// CHECK-NEXT:        tile.alu add %[[ACC]][] with %[[EDGE]][%{{.*}}] {{.*}}extents = array<i64: 1, 1>
// CHECK-NEXT:        tile.alu add %[[ACC]][%{{.*}}] with %[[EDGE]][%{{.*}}] {{.*}}extents = array<i64: 1, 1>
// CHECK-NEXT:      } else {
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[BOTTOM:.*]] = arith.cmpi eq, %[[Y]], %{{.*}} : index
// CHECK-NEXT:      scf.if %[[BOTTOM]] {
// CHECK-COUNT-3:     tile.alu add %[[ACC]][%{{.*}}] with %[[EDGE]]
// CHECK-NEXT:      } else {
// CHECK-NEXT:      }
// CHECK-NEXT:      tile.alu add %[[ACC]][] with %[[EDGE]][%{{.*}}] {{.*}}extents = array<i64: 1, 3>, target_strides = array<i64: 24, 8>
// CHECK-NEXT:      tile.alu add %[[ACC]][%{{.*}}] with %[[EDGE]][%{{.*}}] {{.*}}extents = array<i64: 1, 3>, target_strides = array<i64: 24, 8>
// CHECK-NEXT:      tile.alu add
func.func @border(%x: memref<1x1x6x8x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %e: memref<8x1x16xi32, "dram">, %y: memref<1x1x6x8x16xi8, "dram">) {
  tile.conv2d %x, %w, %b border %e : memref<8x1x16xi32, "dram"> to %y {schedule = #tile.schedule<rows = 3, columns = 8, kblock = 1, nblock = 1, inp_stages = 2, wgt_stages = 2, acc_stages = 2, order = nmk>, outside = -5, strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x6x8x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x6x8x16xi8, "dram">
  func.return
}

// -----

// A shift for each channel: the amounts stay on chip beside the bias. All channels go left by two
// before; results leave one output vector at a time, each with its own amounts.
// CHECK-LABEL: func.func @by_channel(
// CHECK:         %[[BIAS:.*]] = memref.alloc() : memref<2x1x16xi32, "acc">
// CHECK-NEXT:    %[[SHIFTS:.*]] = memref.alloc() : memref<2x1x16xi32, "acc">
// CHECK:         tile.load %{{.*}}[%{{.*}}] to %[[BIAS]][] {box = array<i64: 1, 2>}
// CHECK-NEXT:    tile.load %s[%{{.*}}] to %[[SHIFTS]][] {box = array<i64: 1, 2>}
// CHECK:         tile.gemm %[[ACC:.*]][],
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to
// CHECK-NEXT:      tile.alu add %[[ACC]][%[[I]]] with %[[BIAS]][%[[I]]]
// CHECK-NEXT:      tile.alu shr %[[ACC]][%[[I]]] {{.*}}immediate = -2
// CHECK-NEXT:      tile.alu shr %[[ACC]][%[[I]]] with %[[SHIFTS]][%[[I]]] : memref<2x1x16xi32, "acc"> {extents = array<i64: 1, 9>, target_strides = array<i64: 9, 1>, source_strides = array<i64: 1, 0>}
// CHECK-NEXT:      tile.alu max %[[ACC]][%[[I]]]
func.func @by_channel(%x: memref<1x2x1x9x16xi8, "dram">, %w: memref<2x2x1x1x16x16xi8, "dram">, %b: memref<2x16xi32, "dram">, %s: memref<2x16xi32, "dram">, %y: memref<1x2x1x9x16xi8, "dram">) {
  tile.conv2d %x, %w, %b shifts %s : memref<2x16xi32, "dram"> to %y {schedule = #tile.schedule<rows = 1, columns = 9, kblock = 2, nblock = 2, inp_stages = 1, wgt_stages = 1, acc_stages = 1, order = mnk, drain = 1>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = -2, low = 0, high = 127} : memref<1x2x1x9x16xi8, "dram">, memref<2x2x1x1x16x16xi8, "dram">, memref<2x16xi32, "dram"> to memref<1x2x1x9x16xi8, "dram">
  func.return
}

// -----

// Constants as digits: the first block of all loads them, behind its own operands; the bias has two
// tiles, one instruction each, the border one, of which a block adds those of its edges.
// CHECK-LABEL: func.func @digits(
// CHECK:         %[[RADIX:.*]] = memref.alloc() : memref<1x1x16xi8, "inp">
// CHECK-NEXT:    %[[BIAS:.*]] = memref.alloc() : memref<1x2x16x16xi8, "wgt">
// CHECK-NEXT:    %[[EDGE:.*]] = memref.alloc() : memref<8x1x1x16x16xi8, "wgt">
// CHECK:         scf.for %[[Y:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK:           tile.gemm %[[ACC:[a-z0-9_]*]]
// CHECK:           %[[FIRST:.*]] = arith.cmpi eq, %[[Y]]
// CHECK-NEXT:      scf.if %[[FIRST]] {
// CHECK:             tile.load %{{.*}} to %[[RADIX]][] {box = array<i64: 1, 1>}
// CHECK:             tile.load %{{.*}} to %[[BIAS]][] {box = array<i64: 1, 2>}
// CHECK:             tile.load %{{.*}} to %[[EDGE]][] {box = array<i64: 1, 8>}
// CHECK:           tile.gemm %[[ACC]][], %[[RADIX]][], %[[EDGE]][] {extents = array<i64: 1, 8>, acc_strides = array<i64: 24, 1>, inp_strides = array<i64: 0, 0>, wgt_strides = array<i64: 1, 0>}
// CHECK:           tile.gemm %[[ACC]][], %[[RADIX]][], %[[BIAS]][] {extents = array<i64: 1, 24>, acc_strides = array<i64: 24, 1>, inp_strides = array<i64: 0, 0>, wgt_strides = array<i64: 2, 0>}
// CHECK-NEXT:      tile.gemm %[[ACC]][], %[[RADIX]][], %[[BIAS]][%{{.*}}, %{{.*}}] {extents = array<i64: 1, 24>
// CHECK-NOT:       tile.alu add
func.func @digits(%x: memref<1x1x6x8x16xi8, "dram">, %w: memref<1x1x3x3x16x16xi8, "dram">, %b: memref<1x2x16x16xi8, "dram">, %r: memref<16xi8, "dram">, %e: memref<8x1x1x16x16xi8, "dram">, %y: memref<1x1x6x8x16xi8, "dram">) {
  tile.conv2d %x, %w, %b radix %r : memref<16xi8, "dram"> border %e : memref<8x1x1x16x16xi8, "dram"> to %y {schedule = #tile.schedule<rows = 3, columns = 8, kblock = 1, nblock = 1, inp_stages = 2, wgt_stages = 2, acc_stages = 2, order = nmk>, outside = -5, strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x6x8x16xi8, "dram">, memref<1x1x3x3x16x16xi8, "dram">, memref<1x2x16x16xi8, "dram"> to memref<1x1x6x8x16xi8, "dram">
  func.return
}

// -----

// A maximum over windows of 3x3 results, 2 apart: results lie in four planes, those of even rows
// and columns first. Maxima along rows come first, then down columns; those of the first row need
// the last row of the block before, which is in the other buffer. One result of four is stored.
// CHECK-LABEL: func.func @maximum(
// CHECK:         %[[RING:.*]] = memref.alloc() : memref<2x1x4x2x4x1x16xi32, "acc">
// CHECK:         scf.for %[[Y:.*]] = %{{.*}} to
// CHECK-NEXT:      %[[ROW:.*]] = arith.muli %[[Y]]
// CHECK-NEXT:      %[[ACC:.*]] = tile.rotate %[[RING]]
// CHECK-NEXT:      tile.clear %[[ACC]][] {extents = array<i64: 32>}
// CHECK:           tile.gemm %[[ACC]][], {{.*}} {extents = array<i64: 2, 4, 2, 2>, acc_strides = array<i64: 4, 1, 16, 8>, inp_strides = array<i64: 16, 2, 8, 1>
// CHECK-NEXT:      tile.alu max %[[ACC]][%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] with %[[ACC]][%{{.*}}, %{{.*}}] : {{.*}} {extents = array<i64: 2, 3, 2>, target_strides = array<i64: 4, 1, 16>
// CHECK-NEXT:      tile.alu max %[[ACC]][] with %[[ACC]][%{{.*}}, %{{.*}}] : {{.*}} {extents = array<i64: 2, 8>
// CHECK-NEXT:      %[[BEFORE:.*]] = tile.rotate %[[RING]]
// CHECK-NEXT:      tile.rotate %[[RING]]
// CHECK-NEXT:      tile.alu max %[[ACC]][%{{.*}}, %{{.*}}, %{{.*}}] with %[[ACC]][%{{.*}}, %{{.*}}] : {{.*}} {extents = array<i64: 4>
// CHECK-NEXT:      %[[LATER:.*]] = arith.cmpi ne, %[[ROW]]
// CHECK-NEXT:      scf.if %[[LATER]] {
// CHECK-NEXT:        tile.alu max %[[ACC]][] with %[[BEFORE]][{{.*}}] : {{.*}} {extents = array<i64: 4>
// CHECK:           tile.alu max %[[ACC]][] with %[[ACC]][%{{.*}}, %{{.*}}] : {{.*}} {extents = array<i64: 8>
// CHECK:           tile.alu shr %[[ACC]][] {extents = array<i64: 8>
// CHECK:           tile.store %[[ACC]][] to %{{.*}}[%{{.*}}, %{{.*}}, %[[Y]], %{{.*}}] {box = array<i64: 2, 4>}
func.func @maximum(%x: memref<1x1x8x8x16xi8, "dram">, %w: memref<1x1x1x1x16x16xi8, "dram">, %b: memref<1x16xi32, "dram">, %y: memref<1x1x4x4x16xi8, "dram">) {
  tile.conv2d %x, %w, %b to %y {schedule = #tile.schedule<rows = 4, columns = 8, kblock = 1, nblock = 1, inp_stages = 2, wgt_stages = 1, acc_stages = 2, order = nmk>, maximum = array<i64: 3, 3, 2, 2, 1, 1>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127} : memref<1x1x8x8x16xi8, "dram">, memref<1x1x1x1x16x16xi8, "dram">, memref<1x16xi32, "dram"> to memref<1x1x4x4x16xi8, "dram">
  func.return
}
