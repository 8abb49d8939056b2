// RUN: ceras-opt %s --calibrate 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t

// NOTE: observe-ranges: note: no calibration data for 3 values

// The value before the function has a range too: it indexes the table.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    graph.exponent = -7 : i64}
// CHECK-NEXT:    %[[A:.*]] = graph.binary mul %{{.*}} {graph.range = {{.*}}, graph.exponent = -7 : i64}
// CHECK-NEXT:    graph.unary <sigmoid> %[[A]] {graph.range = {{.*}}, graph.exponent = -7 : i64}
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %a = graph.binary mul %x, %x {activation = #graph.function<sigmoid>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  func.return %a : tensor<64xf32>
}
