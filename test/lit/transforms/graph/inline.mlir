// RUN: ceras-opt %s --inline --split-input-file --verify-diagnostics | filecheck %s
// RUN: ceras-compile %S/Inputs/calls.mlir --target c -o %t | filecheck %s --check-prefix=COMPILED
// COMPILED: compiled for c
// RUN: ceras-opt %S/Inputs/calls.mlir --quantize 2>&1 | filecheck %s --check-prefix=FLOAT
// FLOAT: warning: called functions remain in float: add --inline before
// RUN: ceras-opt %S/Inputs/calls.mlir --inline --quantize 2>&1 | filecheck %s --check-prefix=INLINED
// INLINED-NOT: remain in float
// INLINED: !quant.uniform

// An operation with a name keeps it. Without a name, it gets that of the call.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: [[A:%.*]] = graph.unary <relu> %x : tensor<4xf32> loc("outer")
// CHECK-NEXT: [[B:%.*]] = graph.unary <tanh> [[A]] : tensor<4xf32> loc("named")
// CHECK-NEXT: return [[B]]
// CHECK-NOT: func.func
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @outer(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("outer")
  func.return %y : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @positive(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = graph.unary <tanh> %y : tensor<4xf32> loc("named")
  func.return %z : tensor<4xf32>
}
func.func private @positive(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = graph.unary <relu> %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// expected-error@unknown {{@main calls itself; a network has no recursion}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @main(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("again")
  func.return %y : tensor<4xf32>
}

// -----

// expected-error@+3 {{there is no function @other with a body; add it to the text}}
func.func private @other(tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @other(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
