// What is printed while passes run: before and after them, and what they change. MLIR's names work.
// RUN: ceras-opt %s --cse --dce --print-ir-before=dce 2>&1 >/dev/null | filecheck %s --check-prefix=BEFORE
// RUN: ceras-opt %s --cse --dce --mlir-print-ir-before-all 2>&1 >/dev/null | filecheck %s --check-prefix=ALL
// RUN: ceras-opt %s --cse --dce --mlir-print-ir-after=dce 2>&1 >/dev/null | filecheck %s --check-prefix=AFTER
// RUN: ceras-opt %s --cse --dce --print-ir-diff 2>&1 >/dev/null | filecheck %s --check-prefix=DIFF
// RUN: ceras-opt %s --cse --dce --mlir-pass-statistics --mlir-timing 2>&1 >/dev/null | filecheck %s --check-prefix=STATISTICS

// BEFORE-NOT: Dump Before cse
// BEFORE:     IR Dump Before dce
// BEFORE-NOT: Dump

// ALL:      IR Dump Before cse
// ALL:      arith.addi
// ALL-NEXT: arith.addi
// ALL:      IR Dump Before dce

// AFTER-NOT: After cse
// AFTER:     IR Dump After dce

// DIFF:      // -----// IR Diff of cse //----- //
// DIFF-NEXT: --- before
// DIFF-NEXT: +++ after
// DIFF:      -    %1 = arith.addi %x, %x : i32
// DIFF-NEXT: -    %2 = arith.muli %0, %1 : i32
// DIFF-NEXT: -    func.return %2 : i32
// DIFF-NEXT: +    %1 = arith.muli %0, %0 : i32
// DIFF-NEXT: +    func.return %1 : i32
// DIFF:      // -----// IR Diff of dce: no change //----- //
// DIFF-NOT:  {{.}}

// STATISTICS:      pass{{ +}}seconds
// STATISTICS:      pass{{ +}}ops before{{ +}}after{{ +}}made{{ +}}erased{{ +}}changed{{ +}}seconds{{ +}}peak KiB
// STATISTICS-NEXT: cse{{ +}}6{{ +}}5{{ +}}0{{ +}}1{{ +}}1{{ +}}
// STATISTICS-NEXT: dce{{ +}}5{{ +}}5{{ +}}0{{ +}}0{{ +}}0{{ +}}

// Pipelines may have MLIR's anchor.
// RUN: ceras-opt %s --pass-pipeline='builtin.module(cse,dce)' --print-ir-after-all 2>&1 >/dev/null | filecheck %s --check-prefix=ANCHOR
// RUN: not ceras-opt %s -p 'builtin.module(cse' 2>&1 | filecheck %s --check-prefix=OPEN
// RUN: not ceras-opt %s -p 'builtin.module(func.func(cse))' 2>&1 | filecheck %s --check-prefix=NESTED

// ANCHOR: IR Dump After cse
// ANCHOR: IR Dump After dce
// OPEN: ceras-opt: error: {{.*}}missing ')' in the pipeline 'builtin.module(cse'
// NESTED: ceras-opt: error: {{.*}}'func.func(...)' in the pipeline 'func.func(cse)': passes run on the whole module; write only the content of the parentheses

// Verification can be left out, to see what a wrong pass makes.
// RUN: ceras-opt %s --load-pass-plugin=%S/Inputs/wrong_passes.py --drop-returned --verify-each=false | filecheck %s --check-prefix=INVALID
// RUN: ceras-opt %s --load-pass-plugin=%S/Inputs/wrong_passes.py --drop-returned --mlir-disable-verify | filecheck %s --check-prefix=INVALID
// RUN: not ceras-opt %s --load-pass-plugin=%S/Inputs/wrong_passes.py --drop-returned --verify-each=true --reproducer= 2>&1 | filecheck %s --check-prefix=VALID
// RUN: not ceras-opt %s --verify-each=maybe 2>&1 | filecheck %s --check-prefix=MAYBE
// RUN: not ceras-opt %s --print-ir-before=cze 2>&1 | filecheck %s --check-prefix=UNKNOWN

// INVALID: func.return{{$}}
// VALID: error: invalid after pass 'drop-returned'
// MAYBE: ceras-opt: error: argument --verify-each: expected true or false, got 'maybe'
// UNKNOWN: ceras-opt: error: unknown pass 'cze'; did you mean 'cse'?

func.func @f(%x: i32) -> i32 {
  %0 = arith.addi %x, %x : i32
  %1 = arith.addi %x, %x : i32
  %2 = arith.muli %0, %1 : i32
  func.return %2 : i32
}
