// RUN: ceras-opt %s --load-pass-plugin=%examples/plugin/swap_function.py --swap-function | filecheck %s
// RUN: ceras-opt %s --load-pass-plugin=%examples/plugin/swap_function.py --swap-function="old=swish new=relu" | filecheck %s --check-prefix=RELU
// RUN: ceras-opt --load-pass-plugin=%examples/plugin/swap_function.py --help-pass=swap-function | filecheck %s --check-prefix=HELP

// RUN: not ceras-opt %s --load-pass-plugin=%examples/plugin/swap_function.py --swap-function=new=x 2>&1 | filecheck %s --check-prefix=BAD
// BAD: ceras-opt: error: pass 'swap-function': 'x' is not a valid Function

// Plain xdsl-opt knows our dialects from our universe, and an installed plugin from its own.
// RUN: xdsl-opt %s | filecheck %s --check-prefix=PLAIN
// RUN: env PYTHONPATH=%examples/plugin:%S/Inputs xdsl-opt %s -p 'swap-function{new="relu"}' | filecheck %s --check-prefix=RELU

// CHECK:      graph.unary <hard_swish> %x : tensor<1x4xf32>
// CHECK-NEXT: graph.unary <sigmoid>
// RELU:       graph.unary <relu> %x : tensor<1x4xf32>
// RELU-NEXT:  graph.unary <sigmoid>
// PLAIN:      graph.unary <swish> %x : tensor<1x4xf32>
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %0 = graph.unary <swish> %x : tensor<1x4xf32>
  %1 = graph.unary <sigmoid> %0 : tensor<1x4xf32>
  func.return %1 : tensor<1x4xf32>
}

// HELP:      --swap-function
// HELP:      Replace the function `old` by `new`
// HELP:      old=<str>  (default: swish)
// HELP-NEXT: new=<str>  (default: hard_swish)
