// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @computed(%x: tensor<2x3xf32>, %roots: tensor<2xi8>) {
  %features = graph.constant dense<[2, -1]> : tensor<2xi8> : tensor<2xi8>
  %thresholds = graph.constant dense<[0.5, 1.0]> : tensor<2xf32> : tensor<2xf32>
  %children = graph.constant dense<[[1, -1], [-2, -1]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %columns = graph.constant dense<[0, 1]> : tensor<2xi8> : tensor<2xi8>
  %leaves = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  // expected-error@+1 {{roots must be a constant}}
  %0 = graph.tree_ensemble %x, %features, %thresholds, %children, %roots, %columns, %leaves : (tensor<2x3xf32>, tensor<2xi8>, tensor<2xf32>, tensor<2x2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @a_feature(%x: tensor<2x3xf32>) {
  %features = graph.constant dense<[2, 3]> : tensor<2xi8> : tensor<2xi8>
  %thresholds = graph.constant dense<[0.5, 1.0]> : tensor<2xf32> : tensor<2xf32>
  %children = graph.constant dense<[[1, -1], [-2, -1]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %roots = graph.constant dense<[0, -2]> : tensor<2xi8> : tensor<2xi8>
  %columns = graph.constant dense<[0, 1]> : tensor<2xi8> : tensor<2xi8>
  %leaves = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  // expected-error@+1 {{features must be in [-3, 3), got 3}}
  %0 = graph.tree_ensemble %x, %features, %thresholds, %children, %roots, %columns, %leaves : (tensor<2x3xf32>, tensor<2xi8>, tensor<2xf32>, tensor<2x2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @a_leaf(%x: tensor<2x3xf32>) {
  %features = graph.constant dense<[2, -1]> : tensor<2xi8> : tensor<2xi8>
  %thresholds = graph.constant dense<[0.5, 1.0]> : tensor<2xf32> : tensor<2xf32>
  %children = graph.constant dense<[[1, -1], [-3, -1]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %roots = graph.constant dense<[0, -2]> : tensor<2xi8> : tensor<2xi8>
  %columns = graph.constant dense<[0, 1]> : tensor<2xi8> : tensor<2xi8>
  %leaves = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  // expected-error@+1 {{children must be in [-2, 2), got -3}}
  %0 = graph.tree_ensemble %x, %features, %thresholds, %children, %roots, %columns, %leaves : (tensor<2x3xf32>, tensor<2xi8>, tensor<2xf32>, tensor<2x2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @a_root(%x: tensor<2x3xf32>) {
  %features = graph.constant dense<[2, -1]> : tensor<2xi8> : tensor<2xi8>
  %thresholds = graph.constant dense<[0.5, 1.0]> : tensor<2xf32> : tensor<2xf32>
  %children = graph.constant dense<[[1, -1], [-2, -1]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %roots = graph.constant dense<[2, 0]> : tensor<2xi8> : tensor<2xi8>
  %columns = graph.constant dense<[0, 1]> : tensor<2xi8> : tensor<2xi8>
  %leaves = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  // expected-error@+1 {{roots must be in [-2, 2), got 2}}
  %0 = graph.tree_ensemble %x, %features, %thresholds, %children, %roots, %columns, %leaves : (tensor<2x3xf32>, tensor<2xi8>, tensor<2xf32>, tensor<2x2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @a_loop(%x: tensor<2x3xf32>) {
  %features = graph.constant dense<[2, -1]> : tensor<2xi8> : tensor<2xi8>
  %thresholds = graph.constant dense<[0.5, 1.0]> : tensor<2xf32> : tensor<2xf32>
  %children = graph.constant dense<[[1, -1], [0, -1]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %roots = graph.constant dense<[0, -2]> : tensor<2xi8> : tensor<2xi8>
  %columns = graph.constant dense<[0, 1]> : tensor<2xi8> : tensor<2xi8>
  %leaves = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  // expected-error@+1 {{children of node 1 must come after it, got [0, -1]}}
  %0 = graph.tree_ensemble %x, %features, %thresholds, %children, %roots, %columns, %leaves : (tensor<2x3xf32>, tensor<2xi8>, tensor<2xf32>, tensor<2x2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @a_column(%x: tensor<2x3xf32>) {
  %features = graph.constant dense<[2, -1]> : tensor<2xi8> : tensor<2xi8>
  %thresholds = graph.constant dense<[0.5, 1.0]> : tensor<2xf32> : tensor<2xf32>
  %children = graph.constant dense<[[1, -1], [-2, -1]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %roots = graph.constant dense<[0, -2]> : tensor<2xi8> : tensor<2xi8>
  %columns = graph.constant dense<[0, 2]> : tensor<2xi8> : tensor<2xi8>
  %leaves = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  // expected-error@+1 {{columns must be in [0, 2), got 2}}
  %0 = graph.tree_ensemble %x, %features, %thresholds, %children, %roots, %columns, %leaves : (tensor<2x3xf32>, tensor<2xi8>, tensor<2xf32>, tensor<2x2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @wide(%x: tensor<2x3xf32>) {
  %features = graph.constant dense<[2, -1]> : tensor<2xi8> : tensor<2xi8>
  %thresholds = graph.constant dense<[0.5, 1.0]> : tensor<2xf32> : tensor<2xf32>
  %children = graph.constant dense<[[1, -1], [-2, -1]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %roots = graph.constant dense<[0, -2]> : tensor<2xi8> : tensor<2xi8>
  %columns = graph.constant dense<[0, 1]> : tensor<2xi8> : tensor<2xi8>
  %leaves = graph.constant dense<1.0> : tensor<2x3xf32> : tensor<2x3xf32>
  // expected-error@+1 {{leaves of 3 elements do not fit 2 columns}}
  %0 = graph.tree_ensemble %x, %features, %thresholds, %children, %roots, %columns, %leaves : (tensor<2x3xf32>, tensor<2xi8>, tensor<2xf32>, tensor<2x2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2x3xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @pairs(%x: tensor<2x3xf32>) {
  %features = graph.constant dense<[2, -1]> : tensor<2xi8> : tensor<2xi8>
  %thresholds = graph.constant dense<[0.5, 1.0]> : tensor<2xf32> : tensor<2xf32>
  %children = graph.constant dense<-1> : tensor<2x3xi8> : tensor<2x3xi8>
  %roots = graph.constant dense<[0, -2]> : tensor<2xi8> : tensor<2xi8>
  %columns = graph.constant dense<[0, 1]> : tensor<2xi8> : tensor<2xi8>
  %leaves = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  // expected-error@+1 {{children must have shape (2, 2), got (2, 3)}}
  %0 = graph.tree_ensemble %x, %features, %thresholds, %children, %roots, %columns, %leaves : (tensor<2x3xf32>, tensor<2xi8>, tensor<2xf32>, tensor<2x3xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @types(%x: tensor<2x3xf32>) {
  %features = graph.constant dense<1.0> : tensor<2xf32> : tensor<2xf32>
  %thresholds = graph.constant dense<[0.5, 1.0]> : tensor<2xf32> : tensor<2xf32>
  %children = graph.constant dense<[[1, -1], [-2, -1]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %roots = graph.constant dense<[0, -2]> : tensor<2xi8> : tensor<2xi8>
  %columns = graph.constant dense<[0, 1]> : tensor<2xi8> : tensor<2xi8>
  %leaves = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  // expected-error@+1 {{features must be integers, got f32}}
  %0 = graph.tree_ensemble %x, %features, %thresholds, %children, %roots, %columns, %leaves : (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @floats(%x: tensor<2x3xf32>) {
  %features = graph.constant dense<[2, -1]> : tensor<2xi8> : tensor<2xi8>
  %thresholds = graph.constant dense<1> : tensor<2xi8> : tensor<2xi8>
  %children = graph.constant dense<[[1, -1], [-2, -1]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %roots = graph.constant dense<[0, -2]> : tensor<2xi8> : tensor<2xi8>
  %columns = graph.constant dense<[0, 1]> : tensor<2xi8> : tensor<2xi8>
  %leaves = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  // expected-error@+1 {{thresholds must be f32, got tensor<2xi8>}}
  %0 = graph.tree_ensemble %x, %features, %thresholds, %children, %roots, %columns, %leaves : (tensor<2x3xf32>, tensor<2xi8>, tensor<2xi8>, tensor<2x2xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return
}
