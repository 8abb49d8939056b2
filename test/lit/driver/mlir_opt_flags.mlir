// Spellings of mlir-opt, and locations as it prints them: with aliases before and after the module.

// RUN: ceras-opt --show-dialects | filecheck %s --check-prefix=DIALECTS
// DIALECTS: Available Dialects:
// DIALECTS: {{^}}graph{{$}}

// RUN: ceras-opt %s --cse --canonicalize --dump-pass-pipeline 2>&1 >/dev/null | filecheck %s --check-prefix=PIPELINE
// PIPELINE: builtin.module(cse,canonicalize)

// RUN: ceras-opt %s --mlir-elide-elementsattrs-if-larger=2 --mlir-disable-threading --mlir-print-local-scope | filecheck %s --check-prefix=ELIDED
// ELIDED: dense<[1.000000e+00, 2.000000e+00]>
// ELIDED: dense_resource<__elided__> : tensor<3xf32>

// RUN: ceras-opt %s --cse --cse --mlir-print-ir-after-all --mlir-print-ir-after-change 2>&1 >/dev/null | filecheck %s --check-prefix=CHANGED
// CHANGED: IR Dump After cse
// CHANGED-NOT: IR Dump

// RUN: ceras-opt %s --mlir-print-debuginfo | filecheck %s --check-prefix=LOCATIONS
// LOCATIONS: func.func @main(%x: tensor<2xf32> loc("x.mlir":2:17))
// LOCATIONS: dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32> loc("x.mlir":3:8)
// LOCATIONS: loc(fused["a", "b"])
// LOCATIONS: func.return {{.*}} loc(callsite("a" at "b"))
// LOCATIONS: } loc("x.mlir":2:1)
#loc2 = loc("x.mlir":2:17)
#map = affine_map<(d0) -> (d0)>
module {
  func.func @main(%x: tensor<2xf32> loc("x.mlir":2:17)) -> tensor<2xf32> {
    %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32> loc(#loc3)
    %d = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32> loc(#loc3)
    %0 = arith.addf %x, %c : tensor<2xf32> loc(#loc13)
    return %0 : tensor<2xf32> loc(#loc14)
  } loc(#loc1)
} loc(#loc)
#loc = loc("x.mlir":0:0)
#loc1 = loc("x.mlir":2:1)
#loc3 = loc("x.mlir":3:8)
#loc5 = loc("a")
#loc6 = loc("b")
#loc13 = loc(fused[#loc5, #loc6])
#loc14 = loc(callsite(#loc5 at #loc6))
