// RUN: ceras-opt %s --outline-pipeline --split-input-file | filecheck %s
// RUN: ceras-opt %s --outline-pipeline --outline-pipeline --split-input-file | filecheck %s

!x = tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
!w = tensor<2x1x1x2x!quant.uniform<i8:f32, 0.5>>

// The residual and the constants go along; the launch takes the place.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:      %[[X:.*]]: tensor
// CHECK-NEXT:    %[[Y:.*]] = mem.launch @pipeline(%[[X]]) {mem.device = #mem.device<dataflow>}
// CHECK-NEXT:    func.return %[[Y]]
// CHECK-LABEL: func.func @pipeline(%{{.*}}: memref<1x4x4x2xi8, "dram">, %{{.*}}: memref<1x4x4x2xi8, "dram">) {
// CHECK-NEXT:    %[[R:.*]] = dataflow.receive
// CHECK-NEXT:    %[[W:.*]] = graph.constant
// CHECK-NEXT:    %[[A:.*]] = graph.conv2d %[[R]], %[[W]]
// CHECK-NEXT:    %[[B:.*]] = graph.conv2d %[[A]], %[[W]] residual %[[R]]
// CHECK-NEXT:    dataflow.send %[[B]]
// CHECK-NEXT:    func.return
func.func @main(%x: !x) -> !x {
  %w = graph.constant dense<1> : tensor<2x1x1x2xi8> : !w
  %a = graph.conv2d %x, %w {mem.device = #mem.device<dataflow>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (!x, !w) -> !x loc("a")
  %b = graph.conv2d %a, %w residual %x : !x {mem.device = #mem.device<dataflow>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (!x, !w) -> !x loc("b")
  func.return %b : !x
}

// -----

!x = tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
!w = tensor<2x1x1x2x!quant.uniform<i8:f32, 0.5>>

// Values that the CPU reads are results of the launch, which precedes all readers.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[Y:.*]], %[[Z:.*]] = mem.launch @pipeline(%{{.*}}) {mem.device = #mem.device<dataflow>}
// CHECK-NEXT:    %[[M:.*]] = graph.requantize %[[Y]]
// CHECK-NEXT:    func.return %[[M]], %[[Z]]
// CHECK-LABEL: func.func @pipeline(
// CHECK-SAME:      %{{.*}}: memref<1x4x4x2xi8, "dram">, %[[P:.*]]: memref<1x4x4x2xi8, "dram">, %[[Q:.*]]: memref
// CHECK:         %[[A:.*]] = graph.conv2d
// CHECK-NEXT:    %[[B:.*]] = graph.conv2d %[[A]]
// CHECK-NEXT:    dataflow.send %[[A]], %[[P]]
// CHECK-NEXT:    dataflow.send %[[B]], %[[Q]]
// CHECK-NEXT:    func.return
func.func @main(%x: !x) -> (!x, !x) {
  %w = graph.constant dense<1> : tensor<2x1x1x2xi8> : !w
  %a = graph.conv2d %x, %w {mem.device = #mem.device<dataflow>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (!x, !w) -> !x loc("a")
  %m = graph.requantize %a {mem.device = #mem.device<cpu>, requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (!x) -> !x loc("m")
  %b = graph.conv2d %a, %w {mem.device = #mem.device<dataflow>, requant = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>} : (!x, !w) -> !x loc("b")
  func.return %m, %b : !x, !x
}
