// RUN: ceras-opt %s --convert-graph-to-tile --split-input-file | filecheck %s

// Constants are packed here: 16 outputs by 16 inputs, zeros in added lanes; half a unit for
// rounding is in the bias, whose added lanes repeat the last; that all are equal is told, and that no sum exceeds the clamp. Both convolutions are of one kind and share a kernel.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[P:.*]] = mem.pack %{{.*}} : (tensor<1x2x2x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x2x2x16x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    %[[W:.*]] = graph.constant dense<"0x02000000000000000000000000000000{{(0000)*}}0200
// CHECK-NEXT:    %[[B:.*]] = graph.constant dense<69> : tensor<1x16xi32>
// CHECK-NEXT:    %[[L:.*]] = mem.launch @conv2d_0(%[[P]], %[[W]], %[[B]]) {mem.device = #mem.device<vta>}
// CHECK-NEXT:    %[[Y:.*]] = mem.unpack %[[L]] : {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
// CHECK:         mem.launch @conv2d_0(
// CHECK:         func.return
// CHECK:       func.func @conv2d_0(%[[KX:.*]]: memref<1x1x2x2x16xi8, "dram">, %[[KW:.*]]: memref<1x1x1x1x16x16xi8, "dram">, %[[KB:.*]]: memref<1x16xi32, "dram">, %[[KY:.*]]: memref<1x1x2x2x16xi8, "dram">)
// CHECK-NEXT:    tile.conv2d %[[KX]], %[[KW]], %[[KB]] to %[[KY]] {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, shift = 7 : i64, low = 0 : i64, high = 127 : i64, never_above, uniform_bias = 69 : i64}
// CHECK-NEXT:    func.return
// CHECK-NOT:   func.func @conv2d_1
func.func @main(%x: tensor<1x2x2x3x!quant.uniform<i8:f32, 0.5>>, %z: tensor<1x2x2x3x!quant.uniform<i8:f32, 0.5>>) -> (tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>) {
  %w = graph.constant dense<[[[[2, 0, 0]]], [[[0, 0, 2]]]]> : tensor<2x1x1x3xi8> : tensor<2x1x1x3x!quant.uniform<i8:f32, 0.5>>
  %b = graph.constant dense<5> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.25>>
  %y = graph.conv2d %x, %w bias %b : tensor<2x!quant.uniform<i32:f32, 0.25>> {requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>, mem.device = #mem.device<vta>} : (tensor<1x2x2x3x!quant.uniform<i8:f32, 0.5>>, tensor<2x1x1x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
  %u = graph.conv2d %z, %w bias %b : tensor<2x!quant.uniform<i32:f32, 0.25>> {requant = #graph.requant<shift = 7, rounding = half_up, low = 0, high = 127>, mem.device = #mem.device<vta>} : (tensor<1x2x2x3x!quant.uniform<i8:f32, 0.5>>, tensor<2x1x1x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
  func.return %y, %u : tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
}

// -----

// A matrix product is the convolution of an image of one row. Eight bits to the left are six
// in the diagonal (64 = 0x40) and two more afterwards.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.constant dense<"0x40000000000000000000000000000000004000
// CHECK:         mem.launch @matmul_0(
// CHECK:       func.func @matmul_0(%[[X:.*]]: memref<1x3x16xi8, "dram">, %{{.*}}: memref<1x1x1x1x16x16xi8, "dram">, %{{.*}}: memref<1x16xi32, "dram">, %[[R:.*]]: memref<1x3x16xi8, "dram">, %[[D:.*]]: memref<16x16xi8, "dram">, %[[Y:.*]]: memref<1x3x16xi8, "dram">)
// CHECK-NEXT:    %[[VX:.*]] = tile.view %[[X]] : memref<1x3x16xi8, "dram"> to memref<1x1x1x3x16xi8, "dram">
// CHECK-NEXT:    %[[VR:.*]] = tile.view %[[R]]
// CHECK-NEXT:    %[[VY:.*]] = tile.view %[[Y]]
// CHECK-NEXT:    tile.conv2d %[[VX]], %{{.*}}, %{{.*}} residual %[[VR]], %[[D]] : memref<1x1x1x3x16xi8, "dram">, memref<16x16xi8, "dram"> to %[[VY]] {{.*}}residual_shift = 2 : i64
func.func @main(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %r: tensor<3x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<1> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  %y = graph.matmul %x, %w residual %r : tensor<3x2x!quant.uniform<i8:f32, 0.5>> {residual_shift = 8, requant = #graph.requant<shift = 9, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<vta>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<3x2x!quant.uniform<i8:f32, 0.5>>
}

// -----

// What is placed on the CPU stays as it is.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    graph.constant
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<1> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  %y = graph.matmul %x, %w {requant = #graph.requant<shift = 9, rounding = half_up, low = -128, high = 127>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<3x2x!quant.uniform<i8:f32, 0.5>>
}

// -----

// Maximum pooling takes the unit matrix along.
// CHECK-LABEL: func.func @pool(
// CHECK:         %[[I:.*]] = graph.constant {{.*}} : tensor<16x16xi8>
// CHECK-NEXT:    mem.launch @max_pool_0(%{{.*}}, %[[I]])
// CHECK:       func.func @max_pool_0(%[[KX:.*]]: memref<1x1x4x4x16xi8, "dram">, %[[KI:.*]]: memref<16x16xi8, "dram">, %[[KY:.*]]: memref<1x1x2x2x16xi8, "dram">)
// CHECK-NEXT:    tile.max_pool %[[KX]], %[[KI]] to %[[KY]] {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>}
func.func @pool(%x: tensor<1x4x4x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x3x!quant.uniform<i8:f32, 0.5>> {
  %y = graph.pool2d max %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, mem.device = #mem.device<vta>} : (tensor<1x4x4x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x3x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x2x2x3x!quant.uniform<i8:f32, 0.5>>
}

// -----

// A depthwise convolution of 24 channels has two groups of blocks, the second half empty; its
// weights are the diagonals of tiles.
// CHECK-LABEL: func.func @depthwise(
// CHECK:         graph.constant {{.*}} : tensor<2x1x3x3x16x16xi8>
// CHECK:       func.func @conv2d_0(
// CHECK-NEXT:    tile.conv2d {{.*}}groups = 2
func.func @depthwise(%x: tensor<1x4x4x24x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x24x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<1> : tensor<24x3x3x1xi8> : tensor<24x3x3x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {groups = 24, requant = #graph.requant<shift = 4, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<vta>} : (tensor<1x4x4x24x!quant.uniform<i8:f32, 0.5>>, tensor<24x3x3x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x24x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x2x2x24x!quant.uniform<i8:f32, 0.5>>
}

// -----

// A difference is a convolution by a diagonal, the other operand its residual: -(y * 2^3) here.
// CHECK-LABEL: func.func @difference(
// CHECK:         %[[X:.*]] = mem.pack %x
// CHECK:         %[[Y:.*]] = mem.pack %y
// CHECK:         mem.launch @sub_0(%[[X]], %{{.*}}, %{{.*}}, %[[Y]], %{{.*}})
// CHECK:       func.func @sub_0(
// CHECK:         tile.conv2d {{.*}} residual {{.*}} shift = 2 : i64, {{.*}}uniform_bias = 2
func.func @difference(%x: tensor<1x4x4x24x!quant.uniform<i8:f32, 0.5>>, %y: tensor<1x4x4x24x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4x4x24x!quant.uniform<i8:f32, 0.5>> {
  %z = graph.binary sub %x, %y {rhs_shift = 3, requant = #graph.requant<shift = 2, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<vta>} : (tensor<1x4x4x24x!quant.uniform<i8:f32, 0.5>>, tensor<1x4x4x24x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4x4x24x!quant.uniform<i8:f32, 0.5>>
  func.return %z : tensor<1x4x4x24x!quant.uniform<i8:f32, 0.5>>
}

// -----

// The average of 49: 2675 / 2^17 is the same for every sum, and is two digits of weights.
// CHECK-LABEL: func.func @average(
// CHECK:         graph.constant {{.*}} : tensor<2x16x16xi8>
// CHECK:         mem.launch @average_pool_0(
// CHECK:       func.func @average_pool_0(
// CHECK-NEXT:    tile.average_pool {{.*}}addend = 64581 : i64, shift = 17 : i64, low = -128 : i64, high = 127 : i64
func.func @average(%x: tensor<1x7x7x24x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x1x24x!quant.uniform<i8:f32, 0.5>> {
  %y = graph.pool2d average %x {kernel = array<i64: 7, 7>, requant = #graph.requant<multiplier = 21913098, shift = 30, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<vta>} : (tensor<1x7x7x24x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x1x24x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x1x1x24x!quant.uniform<i8:f32, 0.5>>
}

// -----

// A shift swish ends the epilogue of the product before it.
// CHECK-LABEL: func.func @swish(
// CHECK-NOT:     graph.shift_swish
// CHECK:         graph.constant {{.*}} : tensor<7x1x16xi32>
// CHECK:         mem.launch @matmul_0(
// CHECK:       func.func @matmul_0(
// CHECK:         tile.conv2d {{.*}} swish {{.*}}low = -32768 : i64, high = 32767 : i64, {{.*}}swish = array<i64: 5, -128, 127>, uniform_bends = array<i64: -1, -2, -3, -4, -5, 3, 4>
func.func @swish(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<1> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  %s = graph.matmul %x, %w {requant = #graph.requant<shift = 1, rounding = half_up, low = -32768, high = 32767>, mem.device = #mem.device<vta>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i16:f32, 0.5>>
  %y = graph.shift_swish %s {bends = array<i64: 1, 2, 3, 4, 5>, requant = #graph.requant<shift = 5, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<vta>} : (tensor<3x2x!quant.uniform<i16:f32, 0.5>>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<3x2x!quant.uniform<i8:f32, 0.5>>
}

// -----

// Zero points of input, residual and result are in the bias: 5 - (-8) * (2 + 1) - (10 << 3) +
// half a unit of 2^4 + (3 << 4) = 5 + 24 - 80 + 8 + 48.
// CHECK-LABEL: func.func @zero_points(
// CHECK:         graph.constant dense<5> : tensor<1x16xi32>
// CHECK:       func.func @matmul_0(
// CHECK:         tile.conv2d {{.*}}shift = 4 : i64, low = 3 : i64, high = 127 : i64, never_above, uniform_bias = 5 : i64
func.func @zero_points(%x: tensor<3x2x!quant.uniform<i8:f32, 0.5:-8>>, %r: tensor<3x1x!quant.uniform<i8:f32, 0.5:10>>) -> tensor<3x1x!quant.uniform<i8:f32, 0.5:3>> {
  %w = graph.constant dense<[[2, 1]]> : tensor<1x2xi8> : tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  %b = graph.constant dense<5> : tensor<1xi32> : tensor<1x!quant.uniform<i32:f32, 0.25>>
  %y = graph.matmul %x, %w bias %b : tensor<1x!quant.uniform<i32:f32, 0.25>> residual %r : tensor<3x1x!quant.uniform<i8:f32, 0.5:10>> {residual_shift = 3, requant = #graph.requant<shift = 4, rounding = half_up, zero_point = 3, low = 3, high = 127>, mem.device = #mem.device<vta>} : (tensor<3x2x!quant.uniform<i8:f32, 0.5:-8>>, tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x1x!quant.uniform<i8:f32, 0.5:3>>
  func.return %y : tensor<3x1x!quant.uniform<i8:f32, 0.5:3>>
}

// -----

// Loads pad with the number zero: what the zero point -2 contributes to sums at the edge is added
// there, -2 * 1 where the left of the taps 1 2 4 is outside, -2 * 4 where the right one is. It is
// digits, of which the first of a tile of 16 x 16 counts one.
// CHECK-LABEL: func.func @border(
// CHECK:         %[[R:.*]] = graph.constant dense<[1, 127, 127, {{.*}}]> : tensor<16xi8>
// CHECK-NEXT:    %[[B:.*]] = graph.constant dense<"0xFE{{(00)*}}F8{{(00)*}}"> : tensor<2x1x1x16x16xi8>
// CHECK-NEXT:    mem.launch @conv2d_0(%{{.*}}, %{{.*}}, %{{.*}}, %[[R]], %[[B]])
// CHECK:       func.func @conv2d_0(
// CHECK-NEXT:    tile.conv2d {{.*}} radix %{{.*}} : memref<16xi8, "dram"> border %{{.*}} : memref<2x1x1x16x16xi8, "dram"> {{.*}}outside = -2
func.func @border(%x: tensor<1x1x4x1x!quant.uniform<i8:f32, 0.5:-2>>) -> tensor<1x1x4x1x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<[[[[1], [2], [4]]]]> : tensor<1x1x3x1xi8> : tensor<1x1x3x1x!quant.uniform<i8:f32, 0.5>>
  %y = graph.conv2d %x, %w {padding = array<i64: 0, 1, 0, 1>, requant = #graph.requant<shift = 4, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<vta>} : (tensor<1x1x4x1x!quant.uniform<i8:f32, 0.5:-2>>, tensor<1x1x3x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x4x1x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x1x4x1x!quant.uniform<i8:f32, 0.5>>
}

// -----

// A shift for each channel: 2 for all, because a vector says at most 15, and 13 (0x0d), 15 and 0
// more, where added lanes repeat the last. Half a unit of each is in the bias, as digits: 16384 is
// 1 (0x01) and 127 * (127 + 2), 65536 is 4 and 127 * (4 * 127 + 8), the third is 2.
// CHECK-LABEL: func.func @by_channel(
// CHECK-NEXT:    %[[P:.*]] = mem.pack
// CHECK-NEXT:    %[[W:.*]] = graph.constant {{.*}} : tensor<1x1x1x1x16x16xi8>
// CHECK-NEXT:    %[[B:.*]] = graph.constant dense<"0x017F02{{(00)*}}047F7F7F7F08{{(00)*}}02{{(00)*}}"> : tensor<1x1x16x16xi8>
// CHECK-NEXT:    %[[R:.*]] = graph.constant {{.*}} : tensor<16xi8>
// CHECK-NEXT:    %[[S:.*]] = graph.constant dense<[[13, 15, 0, 0, 0, {{.*}}]]> : tensor<1x16xi32>
// CHECK-NEXT:    mem.launch @matmul_0(%[[P]], %[[W]], %[[B]], %[[R]], %[[S]])
// CHECK:       func.func @matmul_0(
// CHECK:         tile.conv2d %{{.*}}, %{{.*}}, %{{.*}} shifts %{{.*}} : memref<1x16xi32, "dram"> to %{{.*}} shift = 2 : i64,
func.func @by_channel(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x3x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<1> : tensor<3x4xi8> : tensor<3x4x!quant.uniform<i8:f32:0, {0.25, 0.0625, 2048.0}>>
  %y = graph.matmul %x, %w {requant = #graph.requant<multiplier = [4, 1, 32768], shift = 17, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<vta>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<3x4x!quant.uniform<i8:f32:0, {0.25, 0.0625, 2048.0}>>) -> tensor<3x3x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<3x3x!quant.uniform<i8:f32, 0.5>>
}

// -----

// Multipliers that are alike are one shift, and nothing else.
// CHECK-LABEL: func.func @alike(
// CHECK:         mem.launch @matmul_0(%{{.*}}, %{{.*}}, %{{.*}})
// CHECK:         tile.conv2d %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} to %{{.*}} shift = 3 : i64,
func.func @alike(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x3x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<1> : tensor<3x4xi8> : tensor<3x4x!quant.uniform<i8:f32, 0.5>>
  %y = graph.matmul %x, %w {requant = #graph.requant<multiplier = [4, 4, 4], shift = 5, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<vta>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<3x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x3x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<3x3x!quant.uniform<i8:f32, 0.5>>
}

// -----

// A maximum over windows goes with the convolution before it.
// CHECK-LABEL: func.func @maximum(
// CHECK:         mem.launch @conv2d_0({{.*}}) {mem.device = #mem.device<vta>, vta.layers = 2 : i64} : {{.*}} -> tensor<1x1x8x8x16x!quant.uniform<i8:f32, 0.5>>
// CHECK-NOT:     mem.launch
// CHECK:         tile.conv2d {{.*}}maximum = array<i64: 3, 3, 2, 2, 1, 1>{{.*}}"dram"> to memref<1x1x8x8x16xi8, "dram">
func.func @maximum(%x: tensor<1x16x16x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x8x8x2x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<1> : tensor<2x1x1x3xi8> : tensor<2x1x1x3x!quant.uniform<i8:f32, 0.5>>
  %c = graph.conv2d %x, %w {requant = #graph.requant<shift = 9, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<vta>} : (tensor<1x16x16x3x!quant.uniform<i8:f32, 0.5>>, tensor<2x1x1x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x16x16x2x!quant.uniform<i8:f32, 0.5>>
  %y = graph.pool2d max %c {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, mem.device = #mem.device<vta>} : (tensor<1x16x16x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x8x8x2x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x8x8x2x!quant.uniform<i8:f32, 0.5>>
}

// -----

// Computed weights become tiles on the host; a zero point of the input goes through them into the
// bias, which is known to the kernel as a number only without one. Both products have a kernel.
// CHECK-LABEL: func.func @attention(
// CHECK-NEXT:    %[[Q:.*]] = mem.pack %q
// CHECK-NEXT:    %[[KT:.*]] = mem.pack_tiles %k : (tensor<20x7x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x1x1x1x16x16x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    %[[B:.*]] = graph.constant dense<64> : tensor<2x16xi32>
// CHECK-NEXT:    mem.launch @matmul_0(%[[Q]], %[[KT]], %[[B]])
// CHECK-NEXT:    mem.unpack
// CHECK-NEXT:    %[[P:.*]] = mem.pack %p
// CHECK-NEXT:    %[[VT:.*]] = mem.pack_tiles %v : (tensor<7x20x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x1x1x16x16x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    %[[C:.*]] = graph.constant dense<256> : tensor<1x16xi32>
// CHECK-NEXT:    %[[F:.*]] = mem.fold_zero_point %[[C]], %[[VT]] {zero_point = -128 : i64}
// CHECK-NEXT:    mem.launch @matmul_1(%[[P]], %[[VT]], %[[F]])
// CHECK:       func.func @matmul_0(
// CHECK:         tile.conv2d {{.*}} uniform_bias = 64 : i64
// CHECK:       func.func @matmul_1(
// CHECK-NOT:     uniform_bias
func.func @attention(%q: tensor<3x7x!quant.uniform<i8:f32, 0.5>>, %k: tensor<20x7x!quant.uniform<i8:f32, 0.5>>, %p: tensor<3x20x!quant.uniform<i8:f32, 0.5:-128>>, %v: tensor<7x20x!quant.uniform<i8:f32, 0.5>>) -> (tensor<3x20x!quant.uniform<i8:f32, 0.5>>, tensor<3x7x!quant.uniform<i8:f32, 0.5>>) {
  %s = graph.matmul %q, %k {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<vta>} : (tensor<3x7x!quant.uniform<i8:f32, 0.5>>, tensor<20x7x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x20x!quant.uniform<i8:f32, 0.5>>
  %o = graph.matmul %p, %v {requant = #graph.requant<shift = 9, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<vta>} : (tensor<3x20x!quant.uniform<i8:f32, 0.5:-128>>, tensor<7x20x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x7x!quant.uniform<i8:f32, 0.5>>
  func.return %s, %o : tensor<3x20x!quant.uniform<i8:f32, 0.5>>, tensor<3x7x!quant.uniform<i8:f32, 0.5>>
}
