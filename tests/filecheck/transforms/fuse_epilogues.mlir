// RUN: tessera-opt %s -p fuse-epilogues,dce | filecheck %s

// Every step in the epilogue's order, and the rounding at its end.
// CHECK-LABEL: func.func @all_steps
// CHECK-NEXT: %{{.*}} = tessera.matmul(%a, %b, %c, %bias, %gate, %more)
// CHECK-SAME: {alpha = 5.000000e-01 : f64, out_dtype = "f16", beta = 2.000000e+00 : f64
// CHECK-SAME: bias = "column", activation = "gelu", gate = true, residual = true}
// CHECK-NEXT: func.return
func.func @all_steps(%a: tensor<4x8xf16>, %b: tensor<8x6xf16>, %c: tensor<4x6xf32>, %bias: tensor<6xf32>, %gate: tensor<4x6xf32>, %more: tensor<4x6xf32>) -> tensor<4x6xf16> {
  %0 = tessera.matmul(%a, %b) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  %1 = tessera.elementwise(%0) {function = "mul", scalar = 0.5 : f64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = tessera.elementwise(%c) {function = "mul", scalar = 2.0 : f64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = tessera.elementwise(%2, %1) {function = "add"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %4 = tessera.elementwise(%3, %bias) {function = "add"} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %5 = tessera.elementwise(%4) {function = "gelu"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %6 = tessera.elementwise(%gate, %5) {function = "mul"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %7 = tessera.elementwise(%6, %more) {function = "add"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %8 = tessera.elementwise(%7) {function = "cast", out_dtype = "f16"} : (tensor<4x6xf32>) -> tensor<4x6xf16>
  func.return %8 : tensor<4x6xf16>
}

// One number per row.
// CHECK-LABEL: func.func @row_bias
// CHECK-NEXT: %[[FLAT:.*]] = tessera.reshape %bias {sizes = array<i64: 4>}
// CHECK-NEXT: tessera.matmul(%a, %b, %[[FLAT]]) {bias = "row", out_dtype = "f32"}
func.func @row_bias(%a: tensor<4x8xf16>, %b: tensor<8x6xf16>, %bias: tensor<4x1xf32>) -> tensor<4x6xf32> {
  %0 = tessera.matmul(%a, %b) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  %1 = tessera.elementwise(%0, %bias) {function = "add"} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  func.return %1 : tensor<4x6xf32>
}

// A gated pair is one kernel, whichever product comes first.
// CHECK-LABEL: func.func @gated_pair
// CHECK-NEXT: %[[ONE:.*]] = tessera.matmul(%x, %w, %up) {activation = "silu", out_dtype = "f32", pair = true}
// CHECK-NEXT: %[[TWO:.*]] = tessera.matmul(%x, %w, %up) {activation = "gelu", out_dtype = "f32", pair = true}
// CHECK-NEXT: func.return %[[ONE]], %[[TWO]]
func.func @gated_pair(%x: tensor<4x8xf16>, %w: tensor<8x6xf16>, %up: tensor<8x6xf16>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = tessera.matmul(%x, %w) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  %1 = tessera.elementwise(%0) {function = "silu"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = tessera.matmul(%x, %up) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  %3 = tessera.elementwise(%1, %2) {function = "mul"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %4 = tessera.matmul(%x, %up) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  %5 = tessera.matmul(%x, %w) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  %6 = tessera.elementwise(%5) {function = "gelu"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %7 = tessera.elementwise(%4, %6) {function = "mul"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %3, %7 : tensor<4x6xf32>, tensor<4x6xf32>
}

// Products of different first operands are no pair: the one is in memory, and the other's gate.
// CHECK-LABEL: func.func @gate
// CHECK-NEXT: %[[UP:.*]] = tessera.matmul(%y, %up) :
// CHECK-NEXT: tessera.matmul(%x, %w, %[[UP]]) {activation = "silu", out_dtype = "f32", gate = true}
// CHECK-NEXT: func.return
func.func @gate(%x: tensor<4x8xf16>, %y: tensor<4x8xf16>, %w: tensor<8x6xf16>, %up: tensor<8x6xf16>) -> tensor<4x6xf32> {
  %0 = tessera.matmul(%x, %w) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  %1 = tessera.elementwise(%0) {function = "silu"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = tessera.matmul(%y, %up) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  %3 = tessera.elementwise(%1, %2) {function = "mul"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %3 : tensor<4x6xf32>
}

// Integers that become floats in the kernel.
// CHECK-LABEL: func.func @bytes
// CHECK-NEXT: tessera.matmul(%a, %b, %bias) {out_dtype = "f32", alpha = 2.500000e-01 : f64, bias = "column"}
// CHECK-NEXT: func.return
func.func @bytes(%a: tensor<4x8xi8>, %b: tensor<8x6xui8>, %bias: tensor<6xf32>) -> tensor<4x6xf32> {
  %0 = tessera.matmul(%a, %b) {out_dtype = "f32"} : (tensor<4x8xi8>, tensor<8x6xui8>) -> tensor<4x6xf32>
  %1 = tessera.elementwise(%0) {function = "mul", scalar = 0.25 : f64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = tessera.elementwise(%1, %bias) {function = "add"} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  func.return %2 : tensor<4x6xf32>
}

// The sums are returned as well, so that they must be in memory.
// CHECK-LABEL: func.func @two_uses
// CHECK-NEXT: %[[SUM:.*]] = tessera.matmul(%a, %b) :
// CHECK-NEXT: %[[RELU:.*]] = tessera.elementwise(%[[SUM]]) {function = "relu"}
// CHECK-NEXT: func.return %[[SUM]], %[[RELU]]
func.func @two_uses(%a: tensor<4x8xf16>, %b: tensor<8x6xf16>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = tessera.matmul(%a, %b) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  %1 = tessera.elementwise(%0) {function = "relu"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
}

// Out of order: a bias after the activation, and a scale after that, stay operations.
// CHECK-LABEL: func.func @other_order
// CHECK-NEXT: %[[FUSED:.*]] = tessera.matmul(%a, %b) {activation = "relu", out_dtype = "f32"}
// CHECK-NEXT: %[[SUM:.*]] = tessera.elementwise(%[[FUSED]], %bias) {function = "add"}
// CHECK-NEXT: tessera.elementwise(%[[SUM]]) {function = "mul", scalar = 3.000000e+00 : f64}
func.func @other_order(%a: tensor<4x8xf16>, %b: tensor<8x6xf16>, %bias: tensor<6xf32>) -> tensor<4x6xf32> {
  %0 = tessera.matmul(%a, %b) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  %1 = tessera.elementwise(%0) {function = "relu"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = tessera.elementwise(%1, %bias) {function = "add"} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %3 = tessera.elementwise(%2) {function = "mul", scalar = 3.0 : f64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %3 : tensor<4x6xf32>
}

// A cast asks for the rounded value, a larger result for more than the product's elements, and of
// unknown sizes nobody can tell which of the two an operand is.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT: %[[CAST:.*]] = tessera.matmul(%a, %b) {out_dtype = "f16"}
// CHECK-NEXT: tessera.elementwise(%[[CAST]]) {function = "relu"}
// CHECK-NEXT: %[[ROW:.*]] = tessera.matmul(%a, %b) :
// CHECK-NEXT: tessera.elementwise(%[[ROW]], %large) {function = "add"}
// CHECK-NEXT: %[[ANY:.*]] = tessera.matmul(%c, %d) :
// CHECK-NEXT: tessera.elementwise(%[[ANY]], %e) {function = "add"}
func.func @kept(%a: tensor<1x8xf16>, %b: tensor<8x6xf16>, %large: tensor<5x6xf32>, %c: tensor<?x?xf16>, %d: tensor<?x?xf16>, %e: tensor<?x?xf32>) -> (tensor<1x6xf16>, tensor<5x6xf32>, tensor<?x?xf32>) {
  %0 = tessera.matmul(%a, %b) : (tensor<1x8xf16>, tensor<8x6xf16>) -> tensor<1x6xf32>
  %1 = tessera.elementwise(%0) {function = "cast", out_dtype = "f16"} : (tensor<1x6xf32>) -> tensor<1x6xf16>
  %2 = tessera.elementwise(%1) {function = "relu"} : (tensor<1x6xf16>) -> tensor<1x6xf16>
  %3 = tessera.matmul(%a, %b) : (tensor<1x8xf16>, tensor<8x6xf16>) -> tensor<1x6xf32>
  %4 = tessera.elementwise(%3, %large) {function = "add"} : (tensor<1x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %5 = tessera.matmul(%c, %d) : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  %6 = tessera.elementwise(%5, %e) {function = "add"} : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  func.return %2, %4, %6 : tensor<1x6xf16>, tensor<5x6xf32>, tensor<?x?xf32>
}
