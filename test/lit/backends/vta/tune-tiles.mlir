// RUN: ceras-opt %s --convert-graph-to-tile --tune-tiles='runner="sh %S/Inputs/five_cycles.sh {dram} {out} {insns}"' 2>&1 | filecheck %s

// Every candidate takes five cycles: the model's choice stays to be made.
// CHECK:     tune-tiles: note: tuned: 5 cycles instead of 5, no schedules changed
// CHECK:     tile.conv2d
// CHECK-NOT: schedule =
func.func @main(%x: tensor<3x20x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x18x!quant.uniform<i8:f32, 0.5>> {
  %w = graph.constant dense<1> : tensor<18x20xi8> : tensor<18x20x!quant.uniform<i8:f32, 0.5>>
  %y = graph.matmul %x, %w {mem.device = #mem.device<vta>, requant = #graph.requant<shift = 9, rounding = half_up, low = 0, high = 127>} : (tensor<3x20x!quant.uniform<i8:f32, 0.5>>, tensor<18x20x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x18x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<3x18x!quant.uniform<i8:f32, 0.5>>
}
