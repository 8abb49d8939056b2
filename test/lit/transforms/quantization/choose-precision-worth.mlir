// RUN: python3 -c "import numpy; numpy.savez('%t.npz', input0=numpy.float32(numpy.random.default_rng(0).integers(-63, 64, (32, 64)) / 32))"
// RUN: ceras-opt %s --split-input-file --calibrate="calibration=%t.npz observer=minmax" --choose-precision="calibration=%t.npz budget=0.5" | filecheck %s

// The results meet their goal. 16 bits between the small products take less than 1% of the time.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<1x64xf32>) -> (tensor<1x256xf32>, tensor<1x512xf32>) {
  %w = graph.constant dense<0.125> : tensor<2x64xf32> : tensor<2x64xf32>
  %v = graph.constant dense<0.5> : tensor<256x2xf32> : tensor<256x2xf32>
  %u = graph.constant dense<0.125> : tensor<512x64xf32> : tensor<512x64xf32>
  // CHECK: graph.matmul {{.*}}graph.precision = "i16"} {{.*}}loc("waist")
  %0 = graph.matmul %x, %w : (tensor<1x64xf32>, tensor<2x64xf32>) -> tensor<1x2xf32> loc("waist")
  %1 = graph.matmul %0, %v : (tensor<1x2xf32>, tensor<256x2xf32>) -> tensor<1x256xf32>
  %2 = graph.matmul %x, %u : (tensor<1x64xf32>, tensor<512x64xf32>) -> tensor<1x512xf32>
  func.return %1, %2 : tensor<1x256xf32>, tensor<1x512xf32>
}

// -----

// They would take more.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<1x64xf32>) -> (tensor<1x512xf32>, tensor<1x512xf32>) {
  %w = graph.constant dense<0.125> : tensor<2x64xf32> : tensor<2x64xf32>
  %v = graph.constant dense<0.5> : tensor<512x2xf32> : tensor<512x2xf32>
  %u = graph.constant dense<0.125> : tensor<512x64xf32> : tensor<512x64xf32>
  // CHECK: graph.matmul {{.*}}graph.exponent = {{[^ ]+}} : i64} {{.*}}loc("waist")
  %0 = graph.matmul %x, %w : (tensor<1x64xf32>, tensor<2x64xf32>) -> tensor<1x2xf32> loc("waist")
  %1 = graph.matmul %0, %v : (tensor<1x2xf32>, tensor<512x2xf32>) -> tensor<1x512xf32>
  %2 = graph.matmul %x, %u : (tensor<1x64xf32>, tensor<512x64xf32>) -> tensor<1x512xf32>
  func.return %1, %2 : tensor<1x512xf32>, tensor<1x512xf32>
}
