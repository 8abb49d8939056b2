// RUN: ceras-opt %s --keep-one-pipeline --split-input-file | filecheck %s

!x = tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
!m = tensor<1x4x4x2x!quant.uniform<i16:f32, 0.5>>
!w = tensor<2x1x1x2x!quant.uniform<i8:f32, 0.5>>

// The run with more products stays; a single layer behind the CPU's goes.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.conv2d {{.*}} {mem.device = #mem.device<dataflow>
// CHECK:         graph.conv2d {{.*}} {mem.device = #mem.device<dataflow>
// CHECK:         graph.requantize
// CHECK:         graph.conv2d {{.*}} {mem.device = #mem.device<cpu>, mem.reason = "the circuit is a single pipeline, from 'a' to 'b'"
func.func @main(%x: !x) -> !x {
  %w = graph.constant dense<1> : tensor<2x1x1x2xi8> : !w
  %a = graph.conv2d %x, %w {mem.device = #mem.device<dataflow>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (!x, !w) -> !x loc("a")
  %b = graph.conv2d %a, %w {mem.device = #mem.device<dataflow>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (!x, !w) -> !x loc("b")
  %m = graph.requantize %b {mem.device = #mem.device<cpu>, requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (!x) -> !m loc("m")
  %n = graph.requantize %m {mem.device = #mem.device<cpu>, requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (!m) -> !x loc("n")
  %c = graph.conv2d %n, %w {mem.device = #mem.device<dataflow>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (!x, !w) -> !x loc("c")
  func.return %c : !x
}

// -----

!x = tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
!w = tensor<2x1x1x2x!quant.uniform<i8:f32, 0.5>>

// A value that the CPU reads too has an output port. Work of the CPU between operations of the
// pipeline does not divide it, and an operation that reads its result is not in the pipeline.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.conv2d {{.*}} {mem.device = #mem.device<dataflow>
// CHECK:         graph.requantize
// CHECK:         graph.conv2d {{.*}} {mem.device = #mem.device<dataflow>
// CHECK:         graph.conv2d {{.*}} {mem.device = #mem.device<cpu>, mem.reason = "the circuit is a single pipeline, from 'a' to 'b'"
func.func @main(%x: !x) -> (!x, !x) {
  %w = graph.constant dense<1> : tensor<2x1x1x2xi8> : !w
  %a = graph.conv2d %x, %w {mem.device = #mem.device<dataflow>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (!x, !w) -> !x loc("a")
  %m = graph.requantize %a {mem.device = #mem.device<cpu>, requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (!x) -> !x loc("m")
  %b = graph.conv2d %a, %w {mem.device = #mem.device<dataflow>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (!x, !w) -> !x loc("b")
  %c = graph.conv2d %m, %w {mem.device = #mem.device<dataflow>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (!x, !w) -> !x loc("c")
  func.return %b, %c : !x, !x
}
