// RUN: ceras-opt --allocate-blocks -t c %s | filecheck %s

// Panels are read backwards every other time. They are wide where the first cache holds all weights.
// The last vector reads on behind the last panel.

// CHECK:      MODEL_STATIC_ASSERT(sizeof(LAYER_0_WEIGHTS) == 65536U, layer_0_weights_size);
// CHECK-NEXT: MODEL_STATIC_ASSERT(sizeof(LAYER_1_WEIGHTS) == 848U, layer_1_weights_size);
// CHECK-NEXT: MODEL_STATIC_ASSERT(sizeof(LAYER_1_LAST_WEIGHTS) == 424U, layer_1_last_weights_size);

// Weights of a dynamically quantized state are bytes. Each step quantizes the states of the batch.
// CHECK:      MODEL_STATIC_ASSERT(sizeof(LAYER_2_WEIGHTS) == 100U, layer_2_weights_size);

// CHECK:      /* Layer 0: graph.recurrence 'narrow', 3x1x256 1x64 1x64 -> 4x1x64 */
// CHECK:            multiply_state(p, h, LAYER_0_WEIGHTS, 64, 256, 64, t % 2);
// CHECK:      /* Layer 1: graph.recurrence 'wide', 3x2x30 2x10 -> 3x2x10 */
// CHECK:            multiply_state(p, h, LAYER_1_WEIGHTS, 10, 20, 128, ((t * 2) + b) % 2);
// CHECK:            multiply_state(last, reset, LAYER_1_LAST_WEIGHTS, 10, 10, 128, ((t * 2) + b) % 2);

// CHECK:      /* Layer 2: graph.recurrence 'dynamic', 2x3x20 3x5 3x5 -> 3x3x5 */
// Vectors of 16 lanes multiply bytes. Functions of a panel follow products of the next panel.
// CHECK:        const float scale = quantize_bytes(q, &point, before, 3, 5, 8);
// CHECK-NEXT:   for (int32_t b = 0; b < 3; ++b) {
// CHECK-NEXT:     moved[b] = -3 * sum_bytes(q + (b * 8), 5, point);
// CHECK:            multiply_panel(now, q, LAYER_2_WEIGHTS + (next * 768), point, 3, 8);
// CHECK:              to[j] = in[j] + ((float)(s[j] - moved[b]) * (scale * 0.5f));
// CHECK-NEXT:       }
// CHECK-NEXT:       all_sigmoid(to, to, part);
// CHECK-NEXT:       all_tanh((to + part), (to + part), count - part);
// CHECK:      #else
// CHECK:        const float scale = quantize_state(q, t ? (y + ((t - 1) * 15)) : start, 3, 5, 8);
// CHECK:          const int32_t moved = -3 * sum_words(q + (b * 8), 5);
// CHECK-NEXT:     multiply_words(sums, q + (b * 8), LAYER_2_WEIGHTS, 5, 20);
// CHECK-NEXT:     for (int32_t j = 0; j < 20; ++j) {
// CHECK-NEXT:       p[j] = (float)(sums[j] - moved) * (scale * 0.5f);

func.func @main(%x: tensor<3x1x256xf32> {graph.name = "x"}, %h: tensor<1x64xf32> {graph.name = "h"}, %c: tensor<1x64xf32> {graph.name = "c"}, %z: tensor<3x2x30xf32> {graph.name = "z"}, %k: tensor<2x10xf32> {graph.name = "k"}, %d: tensor<2x3x20xf32> {graph.name = "d"}, %e: tensor<3x5xf32> {graph.name = "e"}, %f: tensor<3x5xf32> {graph.name = "f"}) -> (tensor<4x1x64xf32> {graph.name = "y"}, tensor<3x2x10xf32> {graph.name = "v"}, tensor<3x3x5xf32> {graph.name = "u"}) {
  %0 = graph.constant dense<0.5> : tensor<256x64xf32> : tensor<256x64xf32>
  %1 = graph.recurrence lstm %x, %0, %h cell %c : tensor<1x64xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>]} : (tensor<3x1x256xf32>, tensor<256x64xf32>, tensor<1x64xf32>) -> tensor<4x1x64xf32> loc("narrow")
  %2 = graph.constant dense<0.5> : tensor<30x10xf32> : tensor<30x10xf32>
  %3 = graph.recurrence gru_reset_first %z, %2, %k {functions = [#graph.function<sigmoid>, #graph.function<tanh>]} : (tensor<3x2x30xf32>, tensor<30x10xf32>, tensor<2x10xf32>) -> tensor<3x2x10xf32> loc("wide")
  %4 = graph.constant dense<1> : tensor<20x5xi8> : tensor<20x5xi8>
  %5 = graph.recurrence lstm %d, %4, %e cell %f : tensor<3x5xf32> {functions = [#graph.function<sigmoid>, #graph.function<tanh>, #graph.function<tanh>], weight_scales = array<f32: 0.5>, weight_zero_point = -3 : i64} : (tensor<2x3x20xf32>, tensor<20x5xi8>, tensor<3x5xf32>) -> tensor<3x3x5xf32> loc("dynamic")
  func.return %1, %3, %5 : tensor<4x1x64xf32>, tensor<3x2x10xf32>, tensor<3x3x5xf32>
}
