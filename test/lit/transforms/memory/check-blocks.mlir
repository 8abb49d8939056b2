// RUN: ceras-opt %s --check-blocks --split-input-file --verify-diagnostics
// RUN: ceras-opt %s --split-input-file --allocate-blocks --check-blocks -o /dev/null

// The relu writes where it reads; the sigmoid's result is elsewhere, as both are read again.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mem.arena = #mem.arena<size = 32, alignment = 16>} {
  %a = graph.unary <relu> %x {mem.block = #mem.block<id = 0, offset = 0, size = 16>} : tensor<4xf32>
  %b = graph.unary <sigmoid> %a {mem.block = #mem.block<id = 1, offset = 16, size = 16>} : tensor<4xf32>
  %c = graph.binary add %a, %b {mem.block = #mem.block<id = 0, offset = 0, size = 16>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = graph.unary <relu> %c : tensor<4xf32>
  func.return %d : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mem.arena = #mem.arena<size = 16, alignment = 16>} {
  %a = graph.unary <relu> %x {mem.block = #mem.block<id = 0, offset = 0, size = 16>} : tensor<4xf32>
  // expected-error@+2 {{offset 8 is not aligned to 16}}
  // expected-error@+1 {{bytes to 24 in an arena of 16}}
  %b = graph.unary <sigmoid> %x {mem.block = #mem.block<id = 1, offset = 8, size = 16>} : tensor<4xf32>
  // expected-error@+4 {{operand 0 was overwritten before it was read}}
  // expected-error@+3 {{result overlaps an operand it reads}}
  // expected-error@+2 {{16 bytes in a block of 8}}
  // expected-error@+1 {{bytes to 24 in an arena of 16}}
  %c = graph.binary add %a, %b {mem.block = #mem.block<id = 0, offset = 16, size = 8>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}

// -----

// expected-error@unknown {{no mem.arena: values have no addresses; run --allocate-blocks first}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.unary <relu> %x : tensor<4xf32>
  func.return %a : tensor<4xf32>
}
