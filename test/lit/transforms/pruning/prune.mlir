// RUN: ceras-opt %s --prune | filecheck %s
// RUN: ceras-opt %s --prune="threshold=2.5" | filecheck %s --check-prefix=HIGH
// RUN: ceras-opt %s --prune="sparsity=0.5" | filecheck %s --check-prefix=HALF
// RUN: ceras-opt %s --prune="sparsity=0.5" --prune="sparsity=0.5" | filecheck %s --check-prefix=HALF
// RUN: ceras-opt %s --prune="target-loss=20" 2>&1 >/dev/null | filecheck %s --check-prefix=LOSS

// LOSS:      prune: warning: layers are weighed on 4 synthetic samples; give calibration=FILE.npz for real samples
// LOSS-NEXT: prune: note: inf dB of signal over noise at the outputs before retraining: graph.matmul

// The bias stays, small as it is; so does a weight of exactly the threshold.
// CHECK-LABEL: func.func @main
// CHECK: graph.constant dense<[1.000000e-03, 2.000000e-03]>
// CHECK: graph.constant dense<{{\[\[}}0.000000e+00, 1.000000e-02], [-2.000000e+00, 3.000000e+00]]>
// HIGH: graph.constant dense<{{\[\[}}0.000000e+00, 0.000000e+00], [0.000000e+00, 3.000000e+00]]>
// HALF: graph.constant dense<{{\[\[}}0.000000e+00, 0.000000e+00], [-2.000000e+00, 3.000000e+00]]>
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %b = graph.constant dense<[0.001, 0.002]> : tensor<2xf32> : tensor<2xf32>
  %w = graph.constant dense<[[-0.009, 0.01], [-2.0, 3.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.matmul %x, %w bias %b : tensor<2xf32> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}
