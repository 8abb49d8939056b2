// RUN: python3 -c "import numpy; numpy.savez('%t.npz', input0=numpy.random.default_rng(0).random((30, 2), 'f'))"
// RUN: ceras-opt %s --choose-recipe=calibration=%t.npz 2>%t.err | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t.err
// RUN: ceras-opt %s --choose-recipe | filecheck %s --check-prefix=SAME

// NOTE: choose-recipe: note: recipe channels-{{bias|rounding|rounding-bias}}, {{.*}} dB above plain
// CHECK: graph.recipe = ["equalize-channels"
// SAME-NOT: graph.recipe
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, 0.53], [0.01, -0.0057]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %v = graph.constant dense<[[1.0, 100.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %0 = graph.matmul %x, %w {activation = #graph.function<relu>}
      : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = graph.matmul %0, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %1 : tensor<1x1xf32>
}
