// RUN: ceras-opt %s --split-input-file --verify-diagnostics

func.func @order() {
  // expected-error@+1 {{operand #0 (%b) is used before its definition}}
  %a = "arith.negf"(%b) : (f32) -> f32
  %b = arith.constant 1.0 : f32
  func.return
}

// -----

func.func @itself() {
  // expected-error@+1 {{operand #0 (%a) is used before}}
  %a = "arith.negf"(%a) : (f32) -> f32
  func.return
}

// -----

// A value of one branch is not there after the branches meet.
func.func @branches(%c: i1) -> i32 {
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  %a = arith.constant 1 : i32
  cf.br ^bb3
^bb2:
  cf.br ^bb3
^bb3:
  // expected-error@+1 {{operand #0 (%a) is used before its definition or outside its scope}}
  func.return %a : i32
}

// -----

// The entry dominates both branches and their end, whatever the order of the text.
func.func @fine(%c: i1) -> i32 {
  %a = arith.constant 1 : i32
  cf.cond_br %c, ^bb1, ^bb2
^bb3:
  func.return %b : i32
^bb1:
  cf.br ^bb2
^bb2:
  %b = arith.addi %a, %a : i32
  cf.br ^bb3
}

// -----

// Values of a loop body end with the body; values around it can be seen inside.
func.func @loop(%n: index) {
  scf.for %i = %n to %n step %n {
    %x = arith.addi %i, %n : index
  }
  func.return
}
