// RUN: ceras-opt %s --check-operations="target=c" | filecheck %s --check-prefix=C
// RUN: %if nnet %{ not ceras-opt %s --check-operations="target=nnet" 2>&1 | filecheck %s --check-prefix=NNET %}
// RUN: %if nnet %{ not ceras-compile %s --target nnet -o %t 2>&1 | filecheck %s --check-prefix=COMPILE %}

// What has a quantized form, or only moves elements, is not judged in float; each other node once.
// NNET:      node 'cell' (graph.recurrence): error: unsupported: the engine requires constant weights of a recurrent layer
// NNET-NEXT: node 'rows' (graph.put): error: unsupported: the engine only replaces rows, got 'max' of old and new rows
// NNET-NOT:  error

// Nothing is calibrated before.
// COMPILE-NOT: observe-ranges
// COMPILE:     node 'cell' (graph.recurrence): error: unsupported

// C-LABEL: func.func @main
// C:       graph.recurrence
func.func @main(%x: tensor<5x1x3xf32> {graph.name = "x"}, %h: tensor<1x3xf32> {graph.name = "h"}, %i: tensor<1x5xi64> {graph.name = "i"}, %u: tensor<3x3xf32> {graph.name = "u"}) -> (tensor<5x3xf32> {graph.name = "y"}) {
  %w = graph.constant dense<0.5> : tensor<3x3xf32> : tensor<3x3xf32>
  %0 = graph.recurrence rnn %x, %u, %h {functions = [#graph.function<tanh>]} : (tensor<5x1x3xf32>, tensor<3x3xf32>, tensor<1x3xf32>) -> tensor<5x1x3xf32> loc("cell")
  %1 = graph.reshape %0 : (tensor<5x1x3xf32>) -> tensor<5x3xf32>
  %2 = graph.matmul %1, %w : (tensor<5x3xf32>, tensor<3x3xf32>) -> tensor<5x3xf32>
  %r = graph.reshape %i : (tensor<1x5xi64>) -> tensor<5xi64> loc("rows")
  %t = graph.put %1 into %2[%r] by max : (tensor<5x3xf32>, tensor<5xi64>, tensor<5x3xf32>) -> tensor<5x3xf32> loc("rows")
  %3 = graph.binary pow %t, %1 : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32> loc("power")
  func.return %3 : tensor<5x3xf32>
}
