// Passes run in the order of the command line, flags and -p alike.
// RUN: ceras-opt %s --cse -p "dce,canonicalize" --dce --print-ir-after-all 2>&1 >/dev/null | filecheck %s
// RUN: ceras-opt %s --cse --dce --print-ir-after=dce 2>&1 >/dev/null | filecheck %s --check-prefix=ONE
// RUN: ceras-opt %s --cse --time-passes 2>&1 >/dev/null | filecheck %s --check-prefix=TIME

// CHECK:      IR Dump After cse
// CHECK:      arith.addi %x, %x
// CHECK-NOT:  arith.addi
// CHECK:      IR Dump After dce
// CHECK:      IR Dump After canonicalize
// CHECK:      IR Dump After dce

// ONE-NOT:    IR Dump After cse
// ONE:        IR Dump After dce

// TIME:      pass
// TIME:      cse
// TIME:      total
func.func @f(%x: i32) -> i32 {
  %0 = arith.addi %x, %x : i32
  %1 = arith.addi %x, %x : i32
  %2 = arith.muli %0, %1 : i32
  func.return %2 : i32
}
