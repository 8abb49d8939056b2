// The first pass after which outputs are others is named, and can be run alone.
// RUN: not ceras-opt %s --load-pass-plugin=%S/Inputs/wrong_passes.py --cse --mark --relu-to-abs --dce --bisect-passes --reproducer=%t.1 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: ceras-opt --run-reproducer %t.1 | filecheck %s --check-prefix=AGAIN

// WRONG-NOT: Traceback
// WRONG:      bisect.mlir: error: pass 'relu-to-abs' changes the outputs: on sample 0, output 'output0' is off by {{.*}}, relative; allowed 0.0001
// WRONG-NEXT: bisect.mlir: note: reproducer: {{.*}}: replay with: ceras-opt --run-reproducer {{.*}}

// AGAIN: graph.unary <abs>
// AGAIN: func.return {marked}

// Passes that keep the outputs are not stopped.
// RUN: ceras-opt %s --load-pass-plugin=%S/Inputs/wrong_passes.py --cse --mark --dce --bisect-passes | filecheck %s --check-prefix=RIGHT
// RUN: ceras-opt %s --fuse --quantize --bisect-passes --bisect-tolerance=20 --bisect-samples=3 2>/dev/null | filecheck %s --check-prefix=INTEGERS
// RUN: not ceras-opt %s --fuse --quantize --bisect-passes --bisect-tolerance=200 --reproducer= 2>&1 | filecheck %s --check-prefix=LOSS

// RIGHT: graph.unary <relu>
// INTEGERS: !quant.uniform<i8:f32
// LOSS: error: pass '{{.*}}' changes the outputs: signal to noise is {{.*}} dB
// LOSS-NOT: reproducer

// A command may say what is wrong instead.
// RUN: not ceras-opt %s --load-pass-plugin=%S/Inputs/wrong_passes.py --mark --cse --bisect-test '! grep -q marked {input}' --reproducer= 2>&1 | filecheck %s --check-prefix=COMMAND
// RUN: ceras-opt %s --cse --bisect-test 'grep -q relu {input}' | filecheck %s --check-prefix=RIGHT

// COMMAND: bisect.mlir: error: pass 'mark' creates IR on which the command ends with status 1
// COMMAND-NOT: {{.}}

// Bad input is one line.
// RUN: not ceras-opt %s --cse --bisect-test 'true' 2>&1 | filecheck %s --check-prefix=PLACE
// RUN: not ceras-opt %s --cse --bisect-passes --bisect-test 'true {input}' 2>&1 | filecheck %s --check-prefix=BOTH
// RUN: not ceras-opt %s --cse --bisect-passes --bisect-inputs=nowhere.npz 2>&1 | filecheck %s --check-prefix=INPUTS
// RUN: not ceras-opt %s --cse --bisect-samples=0 2>&1 | filecheck %s --check-prefix=SAMPLES
// RUN: not ceras-opt %s --cse --bisect-samples=3 2>&1 | filecheck %s --check-prefix=ALONE

// RUN: not ceras-opt %s --cse --bisect-passes --bisect-tolerance=20 --bisect-samples=1 2>&1 | filecheck %s --check-prefix=SINGLE

// SINGLE: error: --bisect-tolerance needs two samples or more, see --bisect-samples
// PLACE: the command of --bisect-test must have {input}, got 'true'
// BOTH: ceras-opt: error: --bisect-test and --bisect-passes are two searches: remove one of them
// INPUTS: nowhere.npz: error: no such file
// SAMPLES: ceras-opt: error: argument --bisect-samples: expected an integer of at least 1, got '0'
// ALONE: ceras-opt: error: --bisect-samples has no effect without --bisect-passes

func.func @main(%x: tensor<1x4x4x2xf32> {graph.input_range = array<f32: -1.0, 1.0>}) -> tensor<1x4x4x3xf32> {
  %w = graph.constant dense<[[[[1.0, 0.01]]], [[[-0.5, 0.013]]], [[[0.25, -0.004]]]]> : tensor<3x1x1x2xf32> : tensor<3x1x1x2xf32>
  %c = graph.conv2d %x, %w : (tensor<1x4x4x2xf32>, tensor<3x1x1x2xf32>) -> tensor<1x4x4x3xf32>
  %0 = graph.unary <relu> %c : tensor<1x4x4x3xf32>
  func.return %0 : tensor<1x4x4x3xf32>
}
