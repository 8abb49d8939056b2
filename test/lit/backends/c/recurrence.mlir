// RUN: ceras-opt --allocate-blocks -t c %s | filecheck %s

// Panels are read backwards every other time. They are wide where the first cache holds all weights.
// The last vector reads on behind the last panel.

// CHECK:      MODEL_STATIC_ASSERT(sizeof(LAYER_0_WEIGHTS) == 65536, layer_0_weights_size);
// CHECK-NEXT: MODEL_STATIC_ASSERT(sizeof(LAYER_1_WEIGHTS) == 848, layer_1_weights_size);
// CHECK-NEXT: MODEL_STATIC_ASSERT(sizeof(LAYER_1_LAST_WEIGHTS) == 424, layer_1_last_weights_size);

// CHECK:      /* Layer 0: graph.recurrence 'narrow', 3x1x256 1x64 1x64 -> 4x1x64 */
// CHECK:            multiply_state(p, h, LAYER_0_WEIGHTS, 64, 256, 64, t % 2);
// CHECK:      /* Layer 1: graph.recurrence 'wide', 3x2x30 2x10 -> 3x2x10 */
// CHECK:            multiply_state(p, h, LAYER_1_WEIGHTS, 10, 20, 128, (t * 2 + b) % 2);
// CHECK:            multiply_state(p + 20, reset, LAYER_1_LAST_WEIGHTS, 10, 10, 128, (t * 2 + b) % 2);

func.func @main(%x: tensor<3x1x256xf32> {graph.name = "x"}, %h: tensor<1x64xf32> {graph.name = "h"}, %c: tensor<1x64xf32> {graph.name = "c"}, %z: tensor<3x2x30xf32> {graph.name = "z"}, %k: tensor<2x10xf32> {graph.name = "k"}) -> (tensor<4x1x64xf32> {graph.name = "y"}, tensor<3x2x10xf32> {graph.name = "v"}) {
  %0 = graph.constant dense<0.5> : tensor<256x64xf32> : tensor<256x64xf32>
  %1 = graph.recurrence lstm %x, %0, %h cell %c : tensor<1x64xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>]} : (tensor<3x1x256xf32>, tensor<256x64xf32>, tensor<1x64xf32>) -> tensor<4x1x64xf32> loc("narrow")
  %2 = graph.constant dense<0.5> : tensor<30x10xf32> : tensor<30x10xf32>
  %3 = graph.recurrence gru_reset_first %z, %2, %k {functions = [#graph.function<sigmoid>, #graph.function<tanh>]} : (tensor<3x2x30xf32>, tensor<30x10xf32>, tensor<2x10xf32>) -> tensor<3x2x10xf32> loc("wide")
  func.return %1, %3 : tensor<4x1x64xf32>, tensor<3x2x10xf32>
}
