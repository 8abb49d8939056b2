// Upstream's parser and printer take our operations as unregistered ones, and our text back.
// REQUIRES: mlir-opt-19
// RUN: ceras-opt %S/operations.mlir --print-op-generic | mlir-opt-19 --allow-unregistered-dialect --mlir-print-op-generic | ceras-opt | filecheck %S/operations.mlir
