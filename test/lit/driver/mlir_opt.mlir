// What we print, mlir-opt reads, hex and elided constants included.
// REQUIRES: mlir-opt-19
// RUN: ceras-opt %s | mlir-opt-19 | filecheck %s
// RUN: ceras-opt %s --elide-constants | mlir-opt-19 | filecheck %s --check-prefix=ELIDED

// CHECK:  arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, -16]> : tensor<17xi16>
// ELIDED: arith.constant dense_resource<__elided__> : tensor<17xi16>
func.func @constants() {
  %1 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, -16]> : tensor<17xi16>
  func.return
}
