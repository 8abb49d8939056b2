// RUN: ceras-opt %s --verify-diagnostics --split-input-file --allow-unregistered-dialect

// expected-error@+1 {{a device name must be an identifier, got 'a.b'}}
"test.op"() {d = #mem.device<a.b>} : () -> ()

// -----

// expected-error@+1 {{a block needs an id and offset >= 0 and a size >= 1, got 0, 0, 0}}
"test.op"() {d = #mem.block<id = 0, offset = 0, size = 0>} : () -> ()

// -----

// expected-error@+1 {{an arena needs a size >= 0 and a power of two as alignment, got 4, 3}}
"test.op"() {d = #mem.arena<size = 4, alignment = 3>} : () -> ()

// -----

// expected-error@+1 {{a region needs a name, a size >= 0 and a capacity >= 1, got '', 4, 8}}
"test.op"() {d = #mem.region<size = 4, capacity = 8>} : () -> ()

// -----

func.func @pack(%x: tensor<1x8x8x3xf32>) {
  // expected-error@+1 {{packed shape must be (1, 1, 8, 8, 16), got (1, 2, 8, 8, 16)}}
  %0 = mem.pack %x : (tensor<1x8x8x3xf32>) -> tensor<1x2x8x8x16xf32>
  func.return
}

// -----

func.func @pack_rows(%x: tensor<3x8x8x3xf32>) {
  // expected-error@+1 {{packed shape must be (2, 1, 8, 8, 2, 16), got (3, 1, 8, 8, 2, 16)}}
  %0 = mem.pack %x : (tensor<3x8x8x3xf32>) -> tensor<3x1x8x8x2x16xf32>
  func.return
}

// -----

func.func @pack_without_vector(%x: tensor<1x8x8x3xf32>) {
  // expected-error@+1 {{a packed shape ends with [B] or [R, B], got (1, 8, 8, 16)}}
  %0 = mem.pack %x : (tensor<1x8x8x3xf32>) -> tensor<1x8x8x16xf32>
  func.return
}

// -----

func.func @pack_vector(%x: tensor<3xf32>) {
  // expected-error@+1 {{only tensors of rank 2 and 4 can be packed, got shape (3,)}}
  %0 = mem.pack %x : (tensor<3xf32>) -> tensor<1x16xf32>
  func.return
}

// -----

func.func @pack_quantizes(%x: tensor<1x3x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{input and result must have the same element type}}
  %0 = mem.pack %x : (tensor<1x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x16xf32>
  func.return
}

// -----

func.func @launch(%x: tensor<3xf32>) {
  // expected-error@+1 {{no function @missing to launch}}
  %0 = mem.launch @missing(%x) : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @kernel(%a: memref<3xf32, "dram">) {
  func.return
}
func.func @launch(%x: tensor<3xf32>) {
  // expected-error@+1 {{kernel @kernel takes 1 buffers, got 2}}
  %0 = mem.launch @kernel(%x) : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func private @declared(memref<1x1x4x16xi8, "dram">, memref<1x1x4x16xi8, "dram">)

func.func @main(%x: tensor<1x1x4x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x4x16x!quant.uniform<i8:f32, 0.5>> {
  // expected-error@+1 {{kernel @declared has no body}}
  %y = mem.launch @declared(%x) : (tensor<1x1x4x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x4x16x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x1x4x16x!quant.uniform<i8:f32, 0.5>>
}

// -----

// expected-error@+1 {{a pitch must not be negative, got -4}}
"test.op"() {b = #mem.block<id = 0, offset = 0, size = 8, pitch = -4>} : () -> ()

// -----

// expected-error@+1 {{expected one of pitch, region}}
"test.op"() {b = #mem.block<id = 0, offset = 0, size = 8, width = 4>} : () -> ()

// -----

func.func @windows_0(%x: tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{strides must have two extents, got [1, 0]}}
  %0 = mem.pack_windows %x {kernel = array<i64: 2, 3>, strides = array<i64: 1, 0>, offset = array<i64: 1, 0>, value = 0 : i64, constants = array<i64>} : (tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x3x2x16x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @windows_1(%x: tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{offset must have two extents, got [1]}}
  %0 = mem.pack_windows %x {kernel = array<i64: 2, 3>, strides = array<i64: 1, 2>, offset = array<i64: 1>, value = 0 : i64, constants = array<i64>} : (tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x3x2x16x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @windows_2(%x: tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{packed shape must be (1, 1, 3, 2, 16), got (1, 2, 3, 2, 16)}}
  %0 = mem.pack_windows %x {kernel = array<i64: 2, 3>, strides = array<i64: 1, 2>, offset = array<i64: 1, 0>, value = 0 : i64, constants = array<i64>} : (tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x3x2x16x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @windows_3(%x: tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{a packed image has rank 5 or 6, got (1, 1, 16)}}
  %0 = mem.pack_windows %x {kernel = array<i64: 2, 3>, strides = array<i64: 1, 2>, offset = array<i64: 1, 0>, value = 0 : i64, constants = array<i64>} : (tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x16x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @windows_4(%x: tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{input and result must have the same element type}}
  %0 = mem.pack_windows %x {kernel = array<i64: 2, 3>, strides = array<i64: 1, 2>, offset = array<i64: 1, 0>, value = 0 : i64, constants = array<i64>} : (tensor<1x3x5x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x3x2x16xf32>
  func.return
}

// -----

func.func @windows_5(%x: tensor<3x5x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{input must have rank 4, got shape (3, 5)}}
  %0 = mem.pack_windows %x {kernel = array<i64: 2, 3>, strides = array<i64: 1, 2>, offset = array<i64: 1, 0>, value = 0 : i64, constants = array<i64>} : (tensor<3x5x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x3x2x16x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @tiles_0(%x: tensor<1x20x7x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{input must have rank 2, got shape (1, 20, 7)}}
  %0 = mem.pack_tiles %x : (tensor<1x20x7x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @tiles_1(%x: tensor<20x7x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{result must have shape (2, 1, 1, 1, 16, 16), got (1, 2, 1, 1, 16, 16)}}
  %0 = mem.pack_tiles %x : (tensor<20x7x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x1x1x16x16x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @tiles_2(%x: tensor<20x7x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{input and result must have the same element type}}
  %0 = mem.pack_tiles %x : (tensor<20x7x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x1x1x1x16x16xf32>
  func.return
}

// -----

func.func @tiles_3(%x: tensor<20x7x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{result must have rank 6, got shape (2, 1, 16, 16)}}
  %0 = mem.pack_tiles %x : (tensor<20x7x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x1x16x16x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @point_0(%b: tensor<3x16x!quant.uniform<i32:f32, 0.25>>, %t: tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{bias must be [2, 16] or [2, R, 16], got shape (3, 16)}}
  %0 = mem.fold_zero_point %b, %t {zero_point = 1 : i64} : (tensor<3x16x!quant.uniform<i32:f32, 0.25>>, tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x16x!quant.uniform<i32:f32, 0.25>>
  func.return
}

// -----

func.func @point_1(%b: tensor<2x16x!quant.uniform<i8:f32, 0.5>>, %t: tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{bias must be stored in int32, got}}
  %0 = mem.fold_zero_point %b, %t {zero_point = 1 : i64} : (tensor<2x16x!quant.uniform<i8:f32, 0.5>>, tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x16x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @point_2(%b: tensor<2x16x!quant.uniform<i32:f32, 0.25>>, %t: tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{the result and the bias must have the same element type}}
  %0 = mem.fold_zero_point %b, %t {zero_point = 1 : i64} : (tensor<2x16x!quant.uniform<i32:f32, 0.25>>, tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x16x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @point_3(%b: tensor<2x16x!quant.uniform<i32:f32, 0.25>>, %t: tensor<2x1x16x16x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error@+1 {{tiles must have rank 6, got shape (2, 1, 16, 16)}}
  %0 = mem.fold_zero_point %b, %t {zero_point = 1 : i64} : (tensor<2x16x!quant.uniform<i32:f32, 0.25>>, tensor<2x1x16x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x16x!quant.uniform<i32:f32, 0.25>>
  func.return
}

// -----

func.func @point_4(%b: tensor<2x16x!quant.uniform<i32:f32, 0.25>>, %t: tensor<2x1x1x1x16x16x!quant.uniform<i32:f32, 0.5>>) {
  // expected-error@+1 {{tiles must be stored in int8, got}}
  %0 = mem.fold_zero_point %b, %t {zero_point = 1 : i64} : (tensor<2x16x!quant.uniform<i32:f32, 0.25>>, tensor<2x1x1x1x16x16x!quant.uniform<i32:f32, 0.5>>) -> tensor<2x16x!quant.uniform<i32:f32, 0.25>>
  func.return
}
