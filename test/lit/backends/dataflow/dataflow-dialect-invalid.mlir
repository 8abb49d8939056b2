// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @pipeline(%from: memref<1x4xi16>) {
  // expected-error@+1 {{a buffer of the stored integers expected, got memref<1x4xi16> for tensor<1x4x!quant.uniform<i8:f32, 0.5>>}}
  %x = dataflow.receive %from : memref<1x4xi16> -> tensor<1x4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @pipeline(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>, %to: memref<4x1xi8>) {
  // expected-error@+1 {{a buffer of the stored integers expected, got memref<4x1xi8> for tensor<1x4x!quant.uniform<i8:f32, 0.5>>}}
  dataflow.send %x, %to : tensor<1x4x!quant.uniform<i8:f32, 0.5>>, memref<4x1xi8>
  func.return
}

// -----

// expected-error@+1 {{rows, filters, slots and parts must be at least 1, got 3, 0, 4, 1}}
func.func @pipeline() attributes {dataflow.lanes = #dataflow.lanes<rows = 3, filters = 0, slots = 4, coo>} {
  func.return
}

// -----

// expected-error@+1 {{an encoding is one of dense, coo, delta, got csr}}
func.func @pipeline() attributes {dataflow.lanes = #dataflow.lanes<rows = 3, filters = 1, slots = 4, csr>} {
  func.return
}
