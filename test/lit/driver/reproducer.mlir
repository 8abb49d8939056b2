// A pass that makes invalid IR is named, and what it was given can be replayed.
// RUN: not ceras-opt %s --load-pass-plugin=%S/Inputs/wrong_passes.py --mark --drop-returned --cse --reproducer=%t.1 2>&1 | filecheck %s --check-prefix=INVALID
// RUN: filecheck %s --check-prefix=FILE --input-file=%t.1
// RUN: not ceras-opt --run-reproducer %t.1 2>&1 | filecheck %s --check-prefix=INVALID-AGAIN

// INVALID-NOT: Traceback
// INVALID: reproducer.mlir:36:3: error: invalid after pass 'drop-returned': 'func.return' op Expected arguments to have the same types
// INVALID-NEXT: reproducer: {{.*}}: replay with: ceras-opt --run-reproducer {{.*}}

// FILE: // version: ceras-opt
// FILE: // command: ceras-opt {{.*}}--drop-returned --cse
// FILE: // options: --load-pass-plugin=/{{.*}}wrong_passes.py
// FILE: // pipeline: drop-returned
// FILE-NEXT: builtin.module
// FILE: func.return {marked} %x : tensor<4xf32> loc("{{.*}}reproducer.mlir":{{.*}})

// INVALID-AGAIN: error: invalid after pass 'drop-returned': 'func.return' op Expected arguments
// INVALID-AGAIN-NOT: reproducer:

// A pass that crashes has a traceback for its author before the message.
// RUN: not ceras-opt %s --load-pass-plugin=%S/Inputs/wrong_passes.py --look-up='key="a b"' --reproducer=%t.2 2>&1 | filecheck %s --check-prefix=CRASH
// RUN: not ceras-opt --run-reproducer %t.2 --print-ir-after-all 2>&1 | filecheck %s --check-prefix=CRASH-AGAIN

// CRASH: Traceback
// CRASH: wrong_passes.py
// CRASH: reproducer.mlir: error: pass 'look-up' crashed: KeyError: 'a b'
// CRASH-NEXT: reproducer:

// CRASH-AGAIN: error: pass 'look-up' crashed: KeyError: 'a b'

// What is no reproducer is not run.
// RUN: not ceras-opt --run-reproducer %s 2>&1 | filecheck %s --check-prefix=NONE
// NONE: reproducer.mlir: not a reproducer: no line begins with '// pipeline: '

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
