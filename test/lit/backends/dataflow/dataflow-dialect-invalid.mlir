// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @pipeline(%from: memref<1x4xi16>) {
  // expected-error@+1 {{the buffer must hold the integers of tensor<1x4x!quant.uniform<i8:f32, 0.5>>, got memref<1x4xi16>}}
  %x = dataflow.receive %from : memref<1x4xi16> -> tensor<1x4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @pipeline(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>, %to: memref<4x1xi8>) {
  // expected-error@+1 {{the buffer must hold the integers of tensor<1x4x!quant.uniform<i8:f32, 0.5>>, got memref<4x1xi8>}}
  dataflow.send %x, %to : tensor<1x4x!quant.uniform<i8:f32, 0.5>>, memref<4x1xi8>
  func.return
}

// -----

// expected-error@+1 {{rows, filters, slots and parts must be >= 1, got 3, 0, 4, 1}}
func.func @pipeline() attributes {dataflow.lanes = #dataflow.lanes<rows = 3, filters = 0, slots = 4, coo>} {
  func.return
}

// -----

// expected-error@+1 {{encoding must be one of dense, by_row, coo, delta, got csr}}
func.func @pipeline() attributes {dataflow.lanes = #dataflow.lanes<rows = 3, filters = 1, slots = 4, csr>} {
  func.return
}

// -----

// expected-error@+1 {{terms must be a power of two, and 1 without lut, got 6}}
func.func @pipeline() attributes {dataflow.lanes = #dataflow.lanes<rows = 3, filters = 1, slots = 4, terms = 6, lut, dense>} {
  func.return
}

// -----

// expected-error@+1 {{terms must be a power of two, and 1 without lut, got 2}}
func.func @pipeline() attributes {dataflow.lanes = #dataflow.lanes<rows = 3, filters = 1, slots = 4, terms = 2, dense>} {
  func.return
}
