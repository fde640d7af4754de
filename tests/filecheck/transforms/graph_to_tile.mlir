// RUN: tessera-opt %s -p graph-to-tile | filecheck %s
// RUN: tessera-opt %s -p graph-to-tile,verify-level{level=tile} | filecheck %s

// CHECK-LABEL: func.func @mlp
// CHECK-NEXT: %c = tile.matmul(%x, %w1) {name = "matmul_1", out_dtype = "f16", mt = 1 : i64} : (tensor<?x48xf16>, tensor<48x80xf16>) -> tensor<?x80xf16>
// CHECK-NEXT: %r = tile.elementwise(%c) {name = "relu_0", function = "relu"} : (tensor<?x80xf16>) -> tensor<?x80xf16>
// CHECK-NEXT: %d = tile.matmul(%r, %w2) {name = "matmul_2"} : (tensor<?x80xf16>, tensor<80x33xf16>) -> tensor<?x33xf32>
func.func @mlp(%x: tensor<?x48xf16>, %w1: tensor<48x80xf16>, %w2: tensor<80x33xf16>) -> tensor<?x33xf32> {
  %c = tessera.matmul(%x, %w1) {out_dtype = "f16", schedule = {mt = 1}} : (tensor<?x48xf16>, tensor<48x80xf16>) -> tensor<?x80xf16>
  %r = tessera.elementwise(%c) {function = "relu"} : (tensor<?x80xf16>) -> tensor<?x80xf16>
  %d = tessera.matmul(%r, %w2) : (tensor<?x80xf16>, tensor<80x33xf16>) -> tensor<?x33xf32>
  func.return %d : tensor<?x33xf32>
}

// Kernel names are symbols of one code object: those of other functions and of ops that are
// lowered already are not used again.
// CHECK-LABEL: func.func @other
// CHECK-NEXT: tile.matmul(%a, %a) {name = "matmul_0"}
// CHECK-NEXT: tile.matmul(%a, %a) {name = "matmul_3"}
func.func @other(%a: tensor<8x8xf16>) {
  %c = tile.matmul(%a, %a) {name = "matmul_0"} : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf32>
  %d = tessera.matmul(%a, %a) : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf32>
  func.return
}

// CHECK-LABEL: func.func @attention
// CHECK-NEXT: %0 = tile.view %x {kind = "reshape", parameters = array<i64: 1, -1, 2, 40>} : tensor<?x80xf16> -> tensor<1x?x2x40xf16>
// CHECK-NEXT: %1 = tile.view %0 {kind = "permute", parameters = array<i64: 0, 2, 1, 3>} : tensor<1x?x2x40xf16> -> tensor<1x2x?x40xf16>
// CHECK-NEXT: %o, %lse = tile.flash_attn(%1, %1, %1) {name = "flash_attn_0", causal = "top_left", scale = 5.000000e-01 : f64}
// CHECK-NEXT: %2 = tile.view %o {kind = "permute", parameters = array<i64: 0, 1, 3, 2>}
func.func @attention(%x: tensor<?x80xf16>) -> tensor<1x2x40x?xf16> {
  %0 = tessera.reshape %x {sizes = array<i64: 1, -1, 2, 40>} : tensor<?x80xf16> -> tensor<1x?x2x40xf16>
  %1 = tessera.permute %0 {axes = array<i64: 0, 2, 1, 3>} : tensor<1x?x2x40xf16> -> tensor<1x2x?x40xf16>
  %o, %lse = tessera.flash_attn(%1, %1, %1) {causal = "top_left", scale = 0.5 : f64} : (tensor<1x2x?x40xf16>, tensor<1x2x?x40xf16>, tensor<1x2x?x40xf16>) -> (tensor<1x2x?x40xf16>, tensor<1x2x?xf32>)
  %2 = tessera.transpose %o : tensor<1x2x?x40xf16> -> tensor<1x2x40x?xf16>
  func.return %2 : tensor<1x2x40x?xf16>
}

// CHECK-LABEL: func.func @backward
// CHECK-NEXT: %dq, %dk, %dv = tile.flash_attn_bwd(%q, %k, %k, %q, %lse, %q) {name = "flash_attn_bwd_0", causal = "top_left"}
func.func @backward(%q: tensor<1x2x?x64xf16>, %k: tensor<1x1x?x64xf16>, %lse: tensor<1x2x?xf32>) -> tensor<1x2x?x64xf16> {
  %dq, %dk, %dv = tessera.flash_attn_bwd(%q, %k, %k, %q, %lse, %q) {causal = "top_left"} : (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?xf32>, tensor<1x2x?x64xf16>) -> (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>)
  func.return %dq : tensor<1x2x?x64xf16>
}
