// RUN: tessera-opt %s | tessera-opt | filecheck %s
// RUN: tessera-opt %s --print-op-generic | tessera-opt | filecheck %s
// RUN: tessera-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC
// RUN: tessera-opt %s -p verify-level{level=target} | filecheck %s

// A directive without operands asks for the kernel alone.
// CHECK: tessera_rocm.flash_attn {name = "fa", head_dim = 64 : i64, dtype = "f16"} : () -> ()
// GENERIC: "tessera_rocm.flash_attn"() {name = "fa", head_dim = 64 : i64, dtype = "f16"} : () -> ()
"tessera_rocm.flash_attn"() {name = "fa", head_dim = 64 : i64, dtype = "f16"} : () -> ()

// CHECK-NEXT: tessera_rocm.wmma_gemm {name = "gemm", dtype = "bf16", m = 16 : i64, n = 16 : i64, k = 16 : i64, mt = 2 : i64, nt = 4 : i64, out_dtype = "f16", transpose_a = true} : () -> ()
// GENERIC: "tessera_rocm.wmma_gemm"() {name = "gemm"
"tessera_rocm.wmma_gemm"() {name = "gemm", dtype = "bf16", m = 16, n = 16, k = 16, mt = 2, nt = 4, out_dtype = "f16", transpose_a = true} : () -> ()

// CHECK-NEXT: tessera_rocm.elementwise {name = "silu", function = "silu", dtype = "f16", out_dtype = "f16"} : () -> ()
// GENERIC: "tessera_rocm.elementwise"() {name = "silu"
"tessera_rocm.elementwise"() {name = "silu", function = "silu", dtype = "f16", out_dtype = "f16"} : () -> ()

// CHECK-NEXT: tessera_rocm.mfma {for_kernel = "fa", m = 16 : i64, n = 16 : i64, k = 16 : i64, dtype = "f16", accumulator_dtype = "f32"}
// CHECK-NEXT: tessera_rocm.async_copy {for_kernel = "fa", operand = "k", rows = 64 : i64, columns = 64 : i64, dtype = "f16"}
// CHECK-NEXT: tessera_rocm.wait {for_kernel = "fa", pending = 0 : i64}
// GENERIC: "tessera_rocm.mfma"() {for_kernel = "fa"
// GENERIC: "tessera_rocm.async_copy"() {for_kernel = "fa"
// GENERIC: "tessera_rocm.wait"() {for_kernel = "fa"
tessera_rocm.mfma {for_kernel = "fa", m = 16, n = 16, k = 16, dtype = "f16", accumulator_dtype = "f32"}
tessera_rocm.async_copy {for_kernel = "fa", operand = "k", rows = 64, columns = 64, dtype = "f16"}
tessera_rocm.wait {for_kernel = "fa", pending = 0}

// CHECK-LABEL: func.func @with_operands
// CHECK-NEXT: %c = tessera_rocm.wmma_gemm(%a, %b) {name = "matmul_0", dtype = "f16", m = 16 : i64, n = 16 : i64, k = 16 : i64, mt = 4 : i64, nt = 4 : i64, waves_m = 2 : i64, waves_n = 2 : i64, block_k = 32 : i64, alignment = 16 : i64} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
// CHECK-NEXT: %d = tessera_rocm.elementwise(%c, %c) {name = "add_0", function = "add", dtype = "f32", out_dtype = "f16", alignment = 2 : i64} : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf16>
// CHECK-NEXT: %e = tessera_rocm.view %d {kind = "reshape", parameters = array<i64: 1, 1, -1, 64>} : tensor<?x?xf16> -> tensor<1x1x?x64xf16>
// CHECK-NEXT: %o, %lse = tessera_rocm.flash_attn(%e, %e, %e) {name = "flash_attn_0", dtype = "f16", head_dim = 64 : i64, causal = "bottom_right", scale = 1.250000e-01 : f64, waves = 4 : i64, queries_per_wave = 16 : i64, keys_per_step = 32 : i64} :
func.func @with_operands(%a: tensor<?x?xf16>, %b: tensor<?x?xf16>) -> tensor<1x1x?x64xf16> {
  %c = tessera_rocm.wmma_gemm(%a, %b) {name = "matmul_0", dtype = "f16", m = 16, n = 16, k = 16, mt = 4, nt = 4, waves_m = 2, waves_n = 2, block_k = 32, alignment = 16} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  %d = tessera_rocm.elementwise(%c, %c) {name = "add_0", function = "add", dtype = "f32", out_dtype = "f16", alignment = 2} : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf16>
  %e = tessera_rocm.view %d {kind = "reshape", parameters = array<i64: 1, 1, -1, 64>} : tensor<?x?xf16> -> tensor<1x1x?x64xf16>
  %o, %lse = tessera_rocm.flash_attn(%e, %e, %e) {name = "flash_attn_0", dtype = "f16", head_dim = 64, causal = "bottom_right", scale = 0.125 : f64, waves = 4, queries_per_wave = 16, keys_per_step = 32} : (tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>) -> (tensor<1x1x?x64xf16>, tensor<1x1x?xf32>)
  func.return %o : tensor<1x1x?x64xf16>
}

// CHECK-LABEL: func.func @attention_backward
// CHECK-NEXT: %dq, %dk, %dv, %dbias = tessera_rocm.flash_attn_bwd(%q, %k, %k, %q, %lse, %q, %bias, %slopes) {name = "fab", head_dim = 64 : i64, dtype = "f16", causal = "top_left", window_left = 3 : i64, window_right = 0 : i64, softcap = 5.000000e-01 : f64, bias_dtype = "bf16", alibi = true, bias_gradient = true} :
// GENERIC: %dq, %dk, %dv, %dbias = "tessera_rocm.flash_attn_bwd"(%q, %k, %k, %q, %lse, %q, %bias, %slopes)
func.func @attention_backward(%q: tensor<1x2x?x64xf16>, %k: tensor<1x1x?x64xf16>, %lse: tensor<1x2x?xf32>, %bias: tensor<2x1x?xbf16>, %slopes: tensor<2xf32>) -> tensor<1x2x?x64xf16> {
  %dq, %dk, %dv, %dbias = tessera_rocm.flash_attn_bwd(%q, %k, %k, %q, %lse, %q, %bias, %slopes) {name = "fab", head_dim = 64 : i64, dtype = "f16", causal = "top_left", window_left = 3 : i64, window_right = 0 : i64, softcap = 5.000000e-01 : f64, bias_dtype = "bf16", alibi = true, bias_gradient = true} : (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?xf32>, tensor<1x2x?x64xf16>, tensor<2x1x?xbf16>, tensor<2xf32>) -> (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<2x1x?xbf16>)
  func.return %dq : tensor<1x2x?x64xf16>
}
