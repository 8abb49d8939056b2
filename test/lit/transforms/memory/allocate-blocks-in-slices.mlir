// RUN: ceras-opt %s --allocate-blocks="io=true in_slices=true" --split-input-file | filecheck %s
// RUN: %if nnet %{ ceras-opt %s --allocate-blocks="io=true in_slices=true target=nnet" --split-input-file \
// RUN:   | filecheck %s --check-prefix=NNET %}

// Who makes an operand writes it where the concatenation has it; the tanh does so in place of
// the argument, which therefore lies there too, and the sigmoid in place of everything.
// NNET-LABEL:  func.func @main
// CHECK-LABEL: func.func @main
// CHECK-SAME:  {mem.block = #mem.block<id = 3, offset = 24, size = 12>}
// CHECK-SAME:  mem.arena = #mem.arena<size = 48, alignment = 16>
// CHECK-NEXT:  graph.unary <relu> {{.*}}#mem.block<id = 1, offset = 0, size = 12>
// CHECK-NEXT:  graph.unary <exp> {{.*}}#mem.block<id = 2, offset = 12, size = 12>
// CHECK-NEXT:  graph.unary <tanh> {{.*}}#mem.block<id = 3, offset = 24, size = 12>
// CHECK-NEXT:  graph.concat {{.*}}#mem.block<id = 0, offset = 0, size = 36>
// CHECK-NEXT:  graph.unary <sigmoid> {{.*}}#mem.block<id = 0, offset = 0, size = 36>
func.func @main(%x: tensor<1x3xf32>) -> tensor<3x3xf32> {
  %a = graph.unary <relu> %x : tensor<1x3xf32>
  %b = graph.unary <exp> %x : tensor<1x3xf32>
  %c = graph.unary <tanh> %x : tensor<1x3xf32>
  %d = graph.concat %a, %b, %c {axis = 0 : i64} : (tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
  %e = graph.unary <sigmoid> %d : tensor<3x3xf32>
  func.return %e : tensor<3x3xf32>
}

// -----

// Columns alternate in memory: without a target they are copied; nnet writes rows with gaps.
// CHECK-LABEL: func.func @main
// CHECK:       graph.unary <relu> {{.*}}offset = [[A:[0-9]+]], size = 24
// CHECK-NEXT:  graph.unary <exp> {{.*}}size = 24
// CHECK-NEXT:  graph.concat
// CHECK-SAME:  mem.copied = "graph.unary at line {{[0-9]+}}: the target's kernels leave no gaps between rows; graph.unary at
// CHECK-NOT:   offset = [[A]],
// CHECK-SAME:  size = 48
// NNET-LABEL:  func.func @main
// NNET:        graph.unary <relu> {{.*}}offset = [[A:[0-9]+]], size = 36, pitch = 24>
// NNET-NEXT:   graph.unary <exp> {{.*}}size = 36, pitch = 24>
// NNET-NEXT:   graph.concat
// NNET-NOT:    mem.copied
// NNET-SAME:   offset = [[A]], size = 48>
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x6xf32> {
  %a = graph.unary <relu> %x : tensor<2x3xf32>
  %b = graph.unary <exp> %x : tensor<2x3xf32>
  %c = graph.concat %a, %b {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  func.return %c : tensor<2x6xf32>
}

// -----

// What cannot be a slice, and why: the argument, and what is also seen under another shape.
// NNET-LABEL:  func.func @main
// NNET:        graph.concat
// NNET-SAME:   mem.copied = "graph.unary at line {{[0-9]+}}: the reshape changes the rows; an input: no operation of the network makes it"
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x6xf32>, tensor<3x2xf32>) {
  %a = graph.unary <relu> %x : tensor<2x3xf32>
  %r = graph.reshape %a : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %b = graph.softmax %r {axis = 1 : i64} : tensor<3x2xf32>
  %c = graph.concat %a, %x {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  func.return %c, %b : tensor<2x6xf32>, tensor<3x2xf32>
}
