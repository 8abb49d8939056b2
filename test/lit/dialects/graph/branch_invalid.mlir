// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @missing(%c: tensor<i1>) {
  // expected-error@+1 {{there is no function @b with a body}}
  %0 = graph.branch if %c then @a else @b() : (tensor<i1>) -> tensor<16xi8>
  func.return
}
func.func private @a() -> tensor<f32> {
  %0 = graph.constant dense<1.0> : tensor<f32> : tensor<f32>
  func.return %0 : tensor<f32>
}

// -----

func.func @arguments(%c: tensor<i1>) {
  // expected-error@+1 {{@a has arguments (tensor<f32>), expected ()}}
  %0 = graph.branch if %c then @a else @a() : (tensor<i1>) -> tensor<16xi8>
  func.return
}
func.func private @a(%x: tensor<f32>) -> tensor<f32> {
  func.return %x : tensor<f32>
}

// -----

func.func @results(%c: tensor<i1>, %x: tensor<2xf32>) {
  // expected-error@+1 {{@b must return the types of @a}}
  %0 = graph.branch if %c then @a else @b(%x) : (tensor<i1>, tensor<2xf32>) -> tensor<16xi8>
  func.return
}
func.func private @a(%x: tensor<2xf32>) -> tensor<2xf32> {
  func.return %x : tensor<2xf32>
}
func.func private @b(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  func.return %x, %x : tensor<2xf32>, tensor<2xf32>
}

// -----

func.func @nothing(%c: tensor<i1>) {
  // expected-error@+1 {{@a must return a value}}
  %0 = graph.branch if %c then @a else @a() : (tensor<i1>) -> tensor<16xi8>
  func.return
}
func.func private @a() {
  func.return
}

// -----

func.func @condition(%c: tensor<1xi1>, %x: tensor<2xf32>) {
  // expected-error@+1 {{the condition must be a tensor<i1>, got tensor<1xi1>}}
  %0 = graph.branch if %c then @a else @a(%x) : (tensor<1xi1>, tensor<2xf32>) -> tensor<16xi8>
  func.return
}
func.func private @a(%x: tensor<2xf32>) -> tensor<2xf32> {
  func.return %x : tensor<2xf32>
}
