// RUN: ceras-opt %s --convert-graph-to-tile='board="%S/Inputs/board_2x8.json"' | filecheck %s --check-prefix=PACKED
// RUN: ceras-opt %s --convert-graph-to-tile='board="%S/Inputs/board_2x8.json"' --tile='board="%S/Inputs/board_2x8.json"' --allocate-blocks --convert-tile-to-vta='board="%S/Inputs/board_2x8.json"' | filecheck %s
// RUN: ceras-opt %s --convert-graph-to-tile='board="%S/Inputs/board_2x8.json"' --tile='board="%S/Inputs/board_2x8.json"' --allocate-blocks | not ceras-opt --convert-tile-to-vta 2>&1 | filecheck %s --check-prefix=OTHER

// Three images of twelve channels are two vectors of two rows, and two of eight lanes. The bias of
// 64, 65 and 66 (0x40, 0x41, 0x42) is digits, of which the first counts one, in every row. Every value begins at multiples of an accumulator, 2 x 8 x 4 bytes.
// PACKED:      mem.pack %{{.*}} : (tensor<3x1x2x12x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2x1x2x2x8x!quant.uniform<i8:f32, 0.5>>
// PACKED-NEXT: graph.constant dense<"{{.*}}"> : tensor<1x2x1x1x8x8xi8>
// PACKED-NEXT: graph.constant dense<"0xC101{{(00)*}}C201{{(00)*}}C301{{(00)*}}"> : tensor<1x1x8x8xi8>
// PACKED-NEXT: graph.constant dense<{{\[\[}}1, 127, 127, 127, 127, 127, 127, 127], [1, 127, 127, 127, 127, 127, 127, 127]]> : tensor<2x8xi8>
// PACKED:      mem.unpack %{{.*}} -> tensor<3x1x2x3x!quant.uniform<i8:f32, 0.5>>
// PACKED:      tile.conv2d {{.*}} : memref<2x2x1x2x2x8xi8, "dram">, memref<1x2x1x1x8x8xi8, "dram">, memref<1x1x8x8xi8, "dram"> to memref<2x1x1x2x2x8xi8, "dram">

// CHECK:       mem.alignment = 64 : i64, mem.arena = #mem.arena<size = {{.*}}, alignment = 64>
// CHECK:       memref.alloc() : memref<1x2x8xi8, "inp">
// CHECK:       memref.alloc() : memref<1x1x8x8xi8, "wgt">
// CHECK:       memref.alloc() : memref<{{.*}}x2x8xi8, "inp">
// CHECK:       memref.alloc() : memref<{{.*}}x8x8xi8, "wgt">
// CHECK:       tile.load %{{.*}} : memref<2x2x2x2x8xi8, "dram"> to memref<2x2x2x8xi8, "inp">
// A pair of images has four vectors of inputs, of 16 bytes each, and two of results.
// CHECK:       vta.program @launch_0
// CHECK:       vta.load inp sram {{.*}} dram {{.*}} size [1, 4] stride 4
// CHECK:       vta.store sram {{.*}} dram {{.*}} size [1, 2] stride 2

// OTHER: unsupported kernel: vectors of inp are (2, 8), the board's (1, 16); convert the graph for this board
func.func @main(%x: tensor<3x1x2x12x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x1x2x3x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<1> : tensor<3x1x1x12xi8> : tensor<3x1x1x12x!quant.uniform<i8:f32, 0.5>>
  %b = graph.constant dense<[0, 1, 2]> : tensor<3xi32> : tensor<3x!quant.uniform<i32:f32, 0.25>>
  %y = graph.conv2d %x, %w bias %b : tensor<3x!quant.uniform<i32:f32, 0.25>> {requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>, mem.device = #mem.device<vta>} : (tensor<3x1x2x12x!quant.uniform<i8:f32, 0.5>>, tensor<3x1x1x12x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x1x2x3x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<3x1x2x3x!quant.uniform<i8:f32, 0.5>>
}
