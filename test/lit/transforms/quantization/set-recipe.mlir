// RUN: ceras-opt %s --set-recipe=recipe=channels-bias | filecheck %s
// RUN: not ceras-opt %s --set-recipe=recipe=best 2>&1 | filecheck %s --check-prefix=BAD

// BAD: option 'recipe' of pass 'set-recipe' must be one of plain, bias, channels

// CHECK: func.func @main
// CHECK-SAME: graph.recipe = ["equalize-channels", "correct-bias"]
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %0 = graph.unary <relu> %x : tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}
