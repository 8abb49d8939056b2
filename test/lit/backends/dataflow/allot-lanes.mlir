// RUN: ceras-opt %s --allot-lanes | filecheck %s
// RUN: ceras-opt %s --allot-lanes="dsp=5" | filecheck %s --check-prefix=FEW
// RUN: ceras-opt %s --allot-lanes="dsp=5" --allot-lanes | filecheck %s --check-prefix=FEW
// RUN: not ceras-opt %s --allot-lanes="dsp=1" 2>&1 | filecheck %s --check-prefix=SHORT

!x = tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
!w = tensor<2x3x3x2x!quant.uniform<i8:f32, 0.5>>

// With the whole chip the ports are the limit; with five multipliers the dense
// layer gets more, and the other computes a half of its columns at a time.
// CHECK:      graph.conv2d {{.*}}dataflow.lanes = #dataflow.lanes<rows = 4, filters = 2, slots = 4, dense>
// FEW:        graph.conv2d {{.*}}dataflow.lanes = #dataflow.lanes<rows = 2, filters = 1, slots = 4, dense>
// FEW:        graph.conv2d {{.*}}dataflow.lanes = #dataflow.lanes<rows = 1, filters = 1, slots = 8, parts = 2, coo>
// SHORT:      node 'a' (layer): error: unsupported: the network needs at least 2 multipliers, 1 of them for this layer, and AMD ZCU102 may use 1
func.func @main(%x: !x) -> !x {
  %y = mem.launch @pipeline(%x) : (!x) -> !x
  func.return %y : !x
}
func.func @pipeline(%from: memref<1x4x4x2xi8, "dram">, %to: memref<1x4x4x2xi8, "dram">) {
  %x = dataflow.receive %from : memref<1x4x4x2xi8, "dram"> -> !x
  %w = graph.constant dense<1> : tensor<2x3x3x2xi8> : !w
  %v = graph.constant dense<[[[[1, 0], [0, 0], [0, 0]], [[0, 0], [0, 0], [0, 0]], [[0, 0], [0, 0], [0, 0]]], [[[0, 0], [0, 0], [0, 0]], [[0, 0], [0, 5], [0, 0]], [[0, 0], [0, 0], [0, 0]]]]> : tensor<2x3x3x2xi8> : !w
  %a = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (!x, !w) -> !x loc("a")
  %b = graph.conv2d %a, %v {padding = array<i64: 1, 1, 1, 1>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (!x, !w) -> !x loc("b")
  dataflow.send %b, %to : !x, memref<1x4x4x2xi8, "dram">
  func.return
}
