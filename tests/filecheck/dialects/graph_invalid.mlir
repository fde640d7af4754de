// RUN: tessera-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: error: tessera.matmul: matmul: operand 'b' has dimension 'k' (axis 0) = 7, expected 8 from axis 1 of operand 'a'; b is f16[7, 6]
func.func @f(%a: tensor<4x8xf16>, %b: tensor<7x6xf16>) -> tensor<4x6xf32> {
  %c = tessera.matmul(%a, %b) : (tensor<4x8xf16>, tensor<7x6xf16>) -> tensor<4x6xf32>
  func.return %c : tensor<4x6xf32>
}

// -----
// CHECK: error: tessera.matmul: matmul: operand 'b' must have rank 2{{.*}} [k, n]{{.*}}, got rank 1: f16[8]
func.func @f(%a: tensor<4x8xf16>, %b: tensor<8xf16>) -> tensor<4x6xf32> {
  %c = tessera.matmul(%a, %b) : (tensor<4x8xf16>, tensor<8xf16>) -> tensor<4x6xf32>
  func.return %c : tensor<4x6xf32>
}

// -----
// CHECK: error: tessera.matmul: matmul: operand 'a' has dtype f32; supported: f16, bf16
func.func @f(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %c = tessera.matmul(%a, %b) : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  func.return %c : tensor<4x6xf32>
}

// -----
// CHECK: error: tessera.matmul: matmul: operands a, b must share one dtype, got a is f16, b is bf16; use cast
func.func @f(%a: tensor<4x8xf16>, %b: tensor<8x6xbf16>) -> tensor<4x6xf32> {
  %c = tessera.matmul(%a, %b) : (tensor<4x8xf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  func.return %c : tensor<4x6xf32>
}

// -----
// CHECK: error: tessera.matmul: result 'c' must be f32[4, 6], got f16[4, 6]
func.func @f(%a: tensor<4x8xf16>, %b: tensor<8x6xf16>) -> tensor<4x6xf16> {
  %c = tessera.matmul(%a, %b) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf16>
  func.return %c : tensor<4x6xf16>
}

// -----
// CHECK: error: tessera.matmul: matmul: takes 2 operands (a, b), got 1
func.func @f(%a: tensor<4x8xf16>) -> tensor<4x8xf32> {
  %c = tessera.matmul(%a) : (tensor<4x8xf16>) -> tensor<4x8xf32>
  func.return %c : tensor<4x8xf32>
}

// -----
// CHECK: error: tessera.matmul: tensor<4x8xf64> has element type f64; supported: f16, bf16, f32
func.func @f(%a: tensor<4x8xf64>, %b: tensor<8x6xf64>) -> tensor<4x6xf32> {
  %c = tessera.matmul(%a, %b) : (tensor<4x8xf64>, tensor<8x6xf64>) -> tensor<4x6xf32>
  func.return %c : tensor<4x6xf32>
}

// -----
// CHECK: error: tessera.matmul: unknown attribute 'transpose_c'; supported: {{.*}}transpose_a, transpose_b, out_dtype
func.func @f(%a: tensor<4x8xf16>, %b: tensor<8x6xf16>) -> tensor<4x6xf32> {
  %c = tessera.matmul(%a, %b) {transpose_c = true} : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
  func.return %c : tensor<4x6xf32>
}

// -----
// CHECK: error: tessera.flash_attn: gives 2 results (o, lse), got 1
func.func @f(%q: tensor<1x1x?x64xf16>) -> tensor<1x1x?x64xf16> {
  %o = tessera.flash_attn(%q, %q, %q) : (tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>) -> tensor<1x1x?x64xf16>
  func.return %o : tensor<1x1x?x64xf16>
}

// -----
// CHECK: error: tessera.flash_attn: flash_attn: heads = 3 is not a multiple of heads_k = 2
func.func @f(%q: tensor<1x3x?x64xf16>, %k: tensor<1x2x?x64xf16>) {
  %o, %lse = tessera.flash_attn(%q, %k, %k) : (tensor<1x3x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?x64xf16>) -> (tensor<1x3x?x64xf16>, tensor<1x3x?xf32>)
  func.return
}

// -----
// CHECK: error: tessera.flash_attn: flash_attn: head_dim = 257 is not supported; supported: 1 to 256
func.func @f(%q: tensor<1x1x?x257xf16>) {
  %o, %lse = tessera.flash_attn(%q, %q, %q) : (tensor<1x1x?x257xf16>, tensor<1x1x?x257xf16>, tensor<1x1x?x257xf16>) -> (tensor<1x1x?x257xf16>, tensor<1x1x?xf32>)
  func.return
}

// -----
// CHECK: error: tessera.flash_attn: causal = 'left'; supported: none, top_left, bottom_right
func.func @f(%q: tensor<1x1x?x64xf16>) {
  %o, %lse = tessera.flash_attn(%q, %q, %q) {causal = "left"} : (tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>) -> (tensor<1x1x?x64xf16>, tensor<1x1x?xf32>)
  func.return
}

// -----
// CHECK: error: tessera.elementwise: function = 'tan'; supported: add, mul, relu, gelu, gelu_tanh, silu, cast
func.func @f(%x: tensor<4xf16>) {
  %y = tessera.elementwise(%x) {function = "tan"} : (tensor<4xf16>) -> tensor<4xf16>
  func.return
}

// -----
// CHECK: error: tessera.elementwise: add: operand x1 has size 5 on axis 0, which does not broadcast with 4 of x0; got f16[4] and f16[5]
func.func @f(%x: tensor<4xf16>, %y: tensor<5xf16>) {
  %z = tessera.elementwise(%x, %y) {function = "add"} : (tensor<4xf16>, tensor<5xf16>) -> tensor<4xf16>
  func.return
}

// -----
// CHECK: error: tessera.elementwise: relu: number of operands must be 1, got 2
func.func @f(%x: tensor<4xf16>) {
  %z = tessera.elementwise(%x, %x) {function = "relu"} : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16>
  func.return
}

// -----
// CHECK: error: tessera.reshape: reshape: [5, 16] of 80 elements does not fit [3, -1]
func.func @f(%x: tensor<5x16xf16>) {
  %y = tessera.reshape %x {sizes = array<i64: 3, -1>} : tensor<5x16xf16> -> tensor<3x?xf16>
  func.return
}

// -----
// CHECK: error: tessera.permute: permute: [0, 0] does not name each of the 2 axes once
func.func @f(%x: tensor<5x16xf16>) {
  %y = tessera.permute %x {axes = array<i64: 0, 0>} : tensor<5x16xf16> -> tensor<5x16xf16>
  func.return
}

// -----
// CHECK: error: tessera.transpose: result must be f16[16, 5], got f16[5, 16]
func.func @f(%x: tensor<5x16xf16>) {
  %y = tessera.transpose %x : tensor<5x16xf16> -> tensor<5x16xf16>
  func.return
}
