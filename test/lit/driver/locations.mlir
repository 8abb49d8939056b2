// RUN: ceras-opt %s | filecheck %s --check-prefix=PLAIN
// RUN: ceras-opt %s --print-debuginfo | filecheck %s
// RUN: ceras-opt %s --print-debuginfo | ceras-opt --print-debuginfo | filecheck %s

// RUN: ceras-opt %s --strip-names | filecheck %s --check-prefix=STRIPPED

// Names are kept, places in files are not.
// PLAIN: arith.constant 1 : i32 loc("conv 1")
// PLAIN-NOT: loc(
// STRIPPED-NOT: loc(
func.func @f() {
  // CHECK: arith.constant 1 : i32 loc("conv 1")
  %0 = arith.constant 1 : i32 loc("conv 1")
  // CHECK: arith.constant 2 : i32 loc("{{.*}}locations.mlir":15:3)
  %1 = arith.constant 2 : i32
  // Of a range, the IR has the start.
  // CHECK: arith.constant 3 : i32 loc("net.py":3:7)
  %2 = arith.constant 3 : i32 loc("net.py":3:7 to :19)
  // CHECK: arith.constant 4 : i32 loc("net.py":4:1)
  %3 = arith.constant 4 : i32 loc("net.py":4:1 to 5:1)
  func.return
}
