// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @kernel
func.func @kernel(%a: memref<1x1x8x8x16xi8, "dram">, %b: memref<1x1x8x8x16xi8, "dram">) {
  func.return
}

// CHECK-LABEL: func.func @main
// CHECK-SAME: {mem.block = #mem.block<id = 0, offset = 0, size = 192>}
// CHECK-SAME: attributes {mem.arena = #mem.arena<size = 4096, alignment = 64>}
// CHECK-NEXT: mem.pack %{{.*}} {mem.device = #mem.device<cpu>, mem.block = #mem.block<id = 1, offset = 192, size = 1024>} : (tensor<1x8x8x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x8x8x16x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT: mem.launch @kernel(%{{.*}}) {mem.device = #mem.device<vta>}
// CHECK-NEXT: mem.unpack %{{.*}} : (tensor<1x1x8x8x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x8x8x3x!quant.uniform<i8:f32, 0.5>>
func.func @main(%x: tensor<1x8x8x3x!quant.uniform<i8:f32, 0.5>> {mem.block = #mem.block<id = 0, offset = 0, size = 192>}) attributes {mem.arena = #mem.arena<size = 4096, alignment = 64>} {
  %0 = mem.pack %x {mem.device = #mem.device<cpu>, mem.block = #mem.block<id = 1, offset = 192, size = 1024>} : (tensor<1x8x8x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x8x8x16x!quant.uniform<i8:f32, 0.5>>
  %1 = mem.launch @kernel(%0) {mem.device = #mem.device<vta>} : (tensor<1x1x8x8x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x8x8x16x!quant.uniform<i8:f32, 0.5>>
  %2 = mem.unpack %1 : (tensor<1x1x8x8x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x8x8x3x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// CHECK-LABEL: func.func @windows
// CHECK-NEXT: mem.pack_windows %{{.*}} {kernel = array<i64: 2, 3>, strides = array<i64: 1, 2>, offset = array<i64: 1, 0>, value = -9 : i64, constants = array<i64>} : (tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x3x2x16x!quant.uniform<i8:f32, 0.5>>
func.func @windows(%x: tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) {
  %0 = mem.pack_windows %x {kernel = array<i64: 2, 3>, strides = array<i64: 1, 2>, offset = array<i64: 1, 0>, value = -9 : i64, constants = array<i64>} : (tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x3x2x16x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// CHECK-LABEL: func.func @tiles
// CHECK-NEXT: mem.pack_tiles %{{.*}} : (tensor<20x7x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT: mem.pack_tiles %{{.*}} {transposed} : (tensor<20x7x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x1x1x16x16x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT: mem.fold_zero_point %{{.*}}, %{{.*}} {zero_point = -128 : i64} : (tensor<2x16x!quant.uniform<i32:f32, 0.25>>, tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x16x!quant.uniform<i32:f32, 0.25>>
func.func @tiles(%x: tensor<20x7x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x16x!quant.uniform<i32:f32, 0.25>>) {
  %0 = mem.pack_tiles %x : (tensor<20x7x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>
  %1 = mem.pack_tiles %x {transposed} : (tensor<20x7x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x1x1x16x16x!quant.uniform<i8:f32, 0.5>>
  %2 = mem.fold_zero_point %b, %0 {zero_point = -128 : i64} : (tensor<2x16x!quant.uniform<i32:f32, 0.25>>, tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x16x!quant.uniform<i32:f32, 0.25>>
  func.return
}

// CHECK-LABEL: func.func @in_regions
// CHECK-SAME: mem.block = #mem.block<id = 0, offset = 64, size = 192, region = bram>
// CHECK-SAME: mem.regions = [#mem.region<size = 256, capacity = 4096, region = bram>]
func.func @in_regions(%x: tensor<192xi8> {mem.block = #mem.block<id = 0, offset = 64, size = 192, region = bram>}) attributes {mem.regions = [#mem.region<size = 256, capacity = 4096, region = bram>]} {
  func.return
}
