// RUN: tessera-opt %s | tessera-opt | filecheck %s
// RUN: tessera-opt %s --print-op-generic | tessera-opt | filecheck %s
// RUN: tessera-opt %s -p verify-level{level=tile} | filecheck %s

// CHECK-LABEL: func.func @unscheduled
// CHECK-NEXT: %c = tile.matmul(%a, %b) {name = "matmul_0"} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
func.func @unscheduled(%a: tensor<?x?xf16>, %b: tensor<?x?xf16>) -> tensor<?x?xf32> {
  %c = tile.matmul(%a, %b) {name = "matmul_0"} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  func.return %c : tensor<?x?xf32>
}

// CHECK-LABEL: func.func @scheduled
// CHECK-NEXT: %c = tile.matmul(%a, %b) {name = "matmul_1", mt = 4 : i64, nt = 2 : i64, waves_m = 2 : i64, waves_n = 1 : i64, block_k = 0 : i64, alignment = 16 : i64, transpose_b = true, out_dtype = "f16"} : (tensor<8x16xf16>, tensor<24x16xf16>) -> tensor<8x24xf16>
func.func @scheduled(%a: tensor<8x16xf16>, %b: tensor<24x16xf16>) -> tensor<8x24xf16> {
  %c = tile.matmul(%a, %b) {name = "matmul_1", mt = 4, nt = 2, waves_m = 2, waves_n = 1, block_k = 0, alignment = 16, transpose_b = true, out_dtype = "f16"} : (tensor<8x16xf16>, tensor<24x16xf16>) -> tensor<8x24xf16>
  func.return %c : tensor<8x24xf16>
}

// CHECK-LABEL: func.func @attention
// CHECK-NEXT: %o, %lse = tile.flash_attn(%q, %q, %q) {name = "fa", causal = "top_left", scale = 1.000000e+00 : f64, waves = 4 : i64, queries_per_wave = 32 : i64, keys_per_step = 64 : i64, alignment = 2 : i64} :
func.func @attention(%q: tensor<1x1x?x64xbf16>) -> tensor<1x1x?x64xbf16> {
  %o, %lse = tile.flash_attn(%q, %q, %q) {name = "fa", causal = "top_left", scale = 1.0 : f64, waves = 4, queries_per_wave = 32, keys_per_step = 64, alignment = 2} : (tensor<1x1x?x64xbf16>, tensor<1x1x?x64xbf16>, tensor<1x1x?x64xbf16>) -> (tensor<1x1x?x64xbf16>, tensor<1x1x?xf32>)
  func.return %o : tensor<1x1x?x64xbf16>
}

// CHECK-LABEL: func.func @elementwise
// CHECK-NEXT: %y = tile.elementwise(%x) {name = "add_0", function = "add", scalar = 1.000000e+00 : f64, out_dtype = "f32", alignment = 4 : i64} : (tensor<7xf16>) -> tensor<7xf32>
// CHECK-NEXT: %z = tile.view %y {kind = "reshape", parameters = array<i64: 7, 1>} : tensor<7xf32> -> tensor<7x1xf32>
func.func @elementwise(%x: tensor<7xf16>) -> tensor<7x1xf32> {
  %y = tile.elementwise(%x) {name = "add_0", function = "add", scalar = 1.0 : f64, out_dtype = "f32", alignment = 4} : (tensor<7xf16>) -> tensor<7xf32>
  %z = tile.view %y {kind = "reshape", parameters = array<i64: 7, 1>} : tensor<7xf32> -> tensor<7x1xf32>
  func.return %z : tensor<7x1xf32>
}

// CHECK-LABEL: func.func @attention_backward
// CHECK-NEXT: %dq, %dk, %dv, %dbias = tile.flash_attn_bwd(%q, %k, %k, %q, %lse, %q, %bias, %slopes) {name = "fab", causal = "top_left", window_left = 3 : i64, window_right = 0 : i64, softcap = 5.000000e-01 : f64, bias_dtype = "bf16", alibi = true, bias_gradient = true, waves = 4 : i64, rows_per_step = 32 : i64, alignment = 2 : i64} :
// GENERIC: %dq, %dk, %dv, %dbias = "tile.flash_attn_bwd"(%q, %k, %k, %q, %lse, %q, %bias, %slopes)
func.func @attention_backward(%q: tensor<1x2x?x64xf16>, %k: tensor<1x1x?x64xf16>, %lse: tensor<1x2x?xf32>, %bias: tensor<2x1x?xbf16>, %slopes: tensor<2xf32>) -> tensor<1x2x?x64xf16> {
  %dq, %dk, %dv, %dbias = tile.flash_attn_bwd(%q, %k, %k, %q, %lse, %q, %bias, %slopes) {name = "fab", causal = "top_left", window_left = 3 : i64, window_right = 0 : i64, softcap = 5.000000e-01 : f64, bias_dtype = "bf16", alibi = true, bias_gradient = true, waves = 4 : i64, rows_per_step = 32 : i64, alignment = 2 : i64} : (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?xf32>, tensor<1x2x?x64xf16>, tensor<2x1x?xbf16>, tensor<2xf32>) -> (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<2x1x?xbf16>)
  func.return %dq : tensor<1x2x?x64xf16>
}
