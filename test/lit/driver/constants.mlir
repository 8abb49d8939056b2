// RUN: ceras-opt %s | filecheck %s
// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --elide-constants | filecheck %s --check-prefix=ELIDED
// RUN: ceras-opt %s --elide-constants | ceras-opt | filecheck %s --check-prefix=ELIDED
// RUN: ceras-opt %s --elide-constants --split-input-file | ceras-opt --split-input-file | filecheck %s --check-prefix=ELIDED

func.func @constants() {
  // CHECK:       arith.constant dense<[1, 2, 3]> : tensor<3xi8>
  // ELIDED:      arith.constant dense<[1, 2, 3]> : tensor<3xi8>
  %0 = arith.constant dense<[1, 2, 3]> : tensor<3xi8>
  // CHECK-NEXT:  arith.constant dense<"0x000102030405060708090A0B0C0D0E0F1011"> : tensor<18xi8>
  // ELIDED-NEXT: arith.constant dense_resource<__elided__> : tensor<18xi8>
  %1 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]> : tensor<18xi8>
  // CHECK-NEXT:  arith.constant dense<2.500000e+00> : tensor<1000xf32>
  // ELIDED-NEXT: arith.constant dense<2.500000e+00> : tensor<1000xf32>
  %2 = arith.constant dense<2.5> : tensor<1000xf32>
  // CHECK-NEXT:  arith.constant dense<true> : tensor<40xi1>
  %3 = arith.constant dense<true> : tensor<40xi1>
  func.return
}

// -----

func.func @elided_again() {
  // ELIDED:      arith.constant dense_resource<__elided__> : tensor<17xi16>
  %1 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]> : tensor<17xi16>
  func.return
}
