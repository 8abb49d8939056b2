// RUN: ceras-opt %s --load-target-plugin=%examples/target/ceras_systolic/target.py --tile-for-array | filecheck %s
// RUN: ceras-opt %s --load-target-plugin=%examples/target/ceras_systolic/target.py --tile-for-array --tile-for-array | filecheck %s
// RUN: ceras-opt %s --load-target-plugin=%examples/target/ceras_systolic/target.py --tile-for-array="board=%S/Inputs/small_array.toml" | filecheck %s --check-prefix=SMALL
// RUN: ceras-opt %s --load-target-plugin=%examples/target/ceras_systolic/target.py --place="target=systolic" | filecheck %s --check-prefix=PLACE
// RUN: ceras-opt %s --load-target-plugin=%examples/target/ceras_systolic/target.py --tile-for-array --allocate-blocks=io=true -t systolic | filecheck %s --check-prefix=STREAM

// What the CPU runs has no tile; all four rows fit the array of the board `edge`, and two a small
// one; a number that is there is kept.
// CHECK-LABEL: func.func @main
// CHECK:       graph.conv2d {{.*}}systolic.rows = 4 : i64
// CHECK-NEXT:  graph.conv2d %{{[^{]*}} {groups = 2
// CHECK-NEXT:  graph.conv2d {{.*}}systolic.rows = 3 : i64

// SMALL: graph.conv2d {{.*}}systolic.rows = 2 : i64

// Rules of the array, each with its reason.
// PLACE:      mem.device = #mem.device<array>
// PLACE-NEXT: mem.device = #mem.device<cpu>, mem.reason = "the array has no groups, got 2: its columns would be idle"
// PLACE-NEXT: mem.device = #mem.device<array>

// The padding of -3 above and beside each row, the residual of none; one launch for each layer.
// STREAM:      # the stream at
// STREAM-NEXT: config pad=-3 shift=7 point=0 low=-128 high=127
// STREAM-NEXT: mvin dram={{[0-9]+}} stride=2 sp=0 before=6 rows=0 after=0 cols=2
// STREAM-NEXT: mvin dram={{[0-9]+}} stride=2 sp=6 before=1 rows=4 after=1 cols=2
// STREAM:      preload dram={{[0-9]+}} acc=0 rows=16
// STREAM-NEXT: mvin dram={{[0-9]+}} stride=8 sp=36 before=0 rows=72 after=0 cols=8
// STREAM-NEXT: compute a=0 step=1 b=36 acc=0 rows=4
// STREAM-NEXT: compute a=6 step=1 b=36 acc=4 rows=4
// STREAM:      mvout dram={{[0-9]+}} stride=2 acc=0 rows=16 cols=2
// STREAM-NEXT: # the stream at
// STREAM:      mvout {{.*}} rows=12 cols=2
// STREAM-NEXT: mvin
// STREAM-NOT:  # the stream at

!x = !quant.uniform<i8:f32, 0.5:-3>
!w = !quant.uniform<i8:f32, 0.25>
!y = !quant.uniform<i8:f32, 16.0>
func.func @main(%x: tensor<1x4x4x2x!x>) -> tensor<1x4x4x2x!x> {
  %w = graph.constant dense<1> : tensor<2x3x3x2xi8> : tensor<2x3x3x2x!w>
  %g = graph.constant dense<1> : tensor<2x3x3x1xi8> : tensor<2x3x3x1x!w>
  %0 = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>, requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<array>} : (tensor<1x4x4x2x!x>, tensor<2x3x3x2x!w>) -> tensor<1x4x4x2x!x>
  %1 = graph.conv2d %0, %g {groups = 2 : i64, padding = array<i64: 1, 1, 1, 1>, requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x4x2x!x>, tensor<2x3x3x1x!w>) -> tensor<1x4x4x2x!x>
  %2 = graph.conv2d %1, %w {padding = array<i64: 1, 1, 1, 1>, requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, mem.device = #mem.device<array>, systolic.rows = 3 : i64} : (tensor<1x4x4x2x!x>, tensor<2x3x3x2x!w>) -> tensor<1x4x4x2x!x>
  func.return %2 : tensor<1x4x4x2x!x>
}
