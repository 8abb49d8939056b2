// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @pipeline(
// CHECK-NEXT:    dataflow.receive %{{.*}} {dataflow.lanes = #dataflow.lanes<rows = 3, filters = 2, slots = 4, coo>} : memref<1x4x4x2xi8, "dram"> -> tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
// CHECK-NEXT:    "test.op"() {dataflow.lanes = #dataflow.lanes<rows = 1, filters = 2, slots = 4, parts = 3, terms = 4, lut, dense>} : () -> ()
// CHECK-NEXT:    dataflow.send %{{.*}}, %{{.*}} : tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>, memref<1x4x4x2xi8, "dram">
func.func @pipeline(%from: memref<1x4x4x2xi8, "dram">, %to: memref<1x4x4x2xi8, "dram">) {
  %x = dataflow.receive %from {dataflow.lanes = #dataflow.lanes<rows = 3, filters = 2, slots = 4, coo>} : memref<1x4x4x2xi8, "dram"> -> tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
  "test.op"() {dataflow.lanes = #dataflow.lanes<rows = 1, filters = 2, slots = 4, parts = 3, terms = 4, lut, dense>} : () -> ()
  dataflow.send %x, %to : tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>, memref<1x4x4x2xi8, "dram">
  func.return
}
