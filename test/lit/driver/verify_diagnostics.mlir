// RUN: ceras-opt %s --split-input-file --verify-diagnostics

func.func @above(%x: i32) -> i32 {
  func.return
  // expected-error@above {{Expected arguments to have the same types as the function output types}}
}

// -----

// expected-error@below {{is not registered}}
"no.such"() : () -> ()

// -----

func.func @all_at_once(%x: i32) -> i32 {
  func.return // expected-error {{Expected arguments to have the same types}}
}
func.func @second(%x: i32) -> i32 {
  func.return
  // expected-error@-1 {{Expected arguments}}
}

// -----

func.func @syntax(
// expected-error@+1 {{Expected argument or type}}
}
