// RUN: %if nnet %{ ceras-opt %s --place="target=nnet" --explain -o /dev/null 2>&1 | filecheck %s %}
// RUN: %if nnet %{ ceras-opt %s --place="target=nnet" --explain="node=y" -o /dev/null 2>&1 | filecheck %s --check-prefix=ONE %}
// RUN: not ceras-opt %s --explain="node=z" 2>&1 | filecheck %s --check-prefix=NONE

// CHECK:      x (graph.unary) on the cpu; the FPGA has no circuit for graph.unary
// CHECK-NEXT: y (graph.unary) on the cpu; the FPGA has no circuit for graph.unary

// ONE-NOT: graph.unary) on the cpu; the FPGA has no circuit for graph.unary{{.*}}x
// ONE:     y (graph.unary) on the cpu

// NONE: explain: no node 'z' in the network
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.unary <relu> %x : tensor<4xf32> loc("x")
  %b = graph.unary <relu> %a : tensor<4xf32> loc("y")
  func.return %b : tensor<4xf32>
}
