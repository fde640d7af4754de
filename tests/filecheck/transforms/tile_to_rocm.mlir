// RUN: tessera-opt %s -p tile-to-rocm | filecheck %s
// RUN: tessera-opt %s -p tile-to-rocm,verify-level{level=target} | filecheck %s

// CHECK-LABEL: func.func @matmul
// CHECK-NEXT: tessera_rocm.mfma {for_kernel = "m", m = 16 : i64, n = 16 : i64, k = 16 : i64, dtype = "bf16", accumulator_dtype = "f32"}
// CHECK-NEXT: tessera_rocm.async_copy {for_kernel = "m", operand = "a", rows = 128 : i64, columns = 32 : i64, dtype = "bf16"}
// CHECK-NEXT: tessera_rocm.async_copy {for_kernel = "m", operand = "b", rows = 32 : i64, columns = 32 : i64, dtype = "bf16"}
// CHECK-NEXT: tessera_rocm.wait {for_kernel = "m", pending = 0 : i64}
// CHECK-NEXT: %c = tessera_rocm.wmma_gemm(%a, %b) {name = "m", m = 16 : i64, n = 16 : i64, k = 16 : i64, dtype = "bf16", transpose_b = true, mt = 4 : i64, nt = 2 : i64, waves_m = 2 : i64, waves_n = 1 : i64, block_k = 32 : i64, alignment = 2 : i64} : (tensor<?x?xbf16>, tensor<?x?xbf16>) -> tensor<?x?xf32>
func.func @matmul(%a: tensor<?x?xbf16>, %b: tensor<?x?xbf16>) -> tensor<?x?xf32> {
  %c = tile.matmul(%a, %b) {name = "m", transpose_b = true, mt = 4, nt = 2, waves_m = 2, waves_n = 1, block_k = 32, alignment = 2} : (tensor<?x?xbf16>, tensor<?x?xbf16>) -> tensor<?x?xf32>
  func.return %c : tensor<?x?xf32>
}

// Without local memory there is nothing to copy or to wait for.
// CHECK-LABEL: func.func @direct
// CHECK-NEXT: tessera_rocm.mfma {for_kernel = "d"
// CHECK-NEXT: tessera_rocm.wmma_gemm(%a, %a) {name = "d"
func.func @direct(%a: tensor<?x?xf16>) {
  %c = tile.matmul(%a, %a) {name = "d", mt = 1, nt = 1, waves_m = 1, waves_n = 1, block_k = 0, alignment = 2} : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  func.return
}

// CHECK-LABEL: func.func @attention
// CHECK-NEXT: tessera_rocm.mfma {for_kernel = "fa"
// CHECK-NEXT: tessera_rocm.async_copy {for_kernel = "fa", operand = "k", rows = 32 : i64, columns = 40 : i64, dtype = "f16"}
// CHECK-NEXT: tessera_rocm.async_copy {for_kernel = "fa", operand = "v", rows = 32 : i64, columns = 24 : i64, dtype = "f16"}
// CHECK-NEXT: tessera_rocm.wait {for_kernel = "fa", pending = 0 : i64}
// CHECK-NEXT: %o, %lse = tessera_rocm.flash_attn(%q, %q, %v) {name = "fa", head_dim = 40 : i64, head_dim_v = 24 : i64, dtype = "f16", causal = "bottom_right", scale = 5.000000e-01 : f64, waves = 2 : i64, queries_per_wave = 16 : i64, keys_per_step = 32 : i64, alignment = 16 : i64}
func.func @attention(%q: tensor<1x2x?x40xf16>, %v: tensor<1x2x?x24xf16>) {
  %o, %lse = tile.flash_attn(%q, %q, %v) {name = "fa", causal = "bottom_right", scale = 0.5 : f64, waves = 2, queries_per_wave = 16, keys_per_step = 32, alignment = 16} : (tensor<1x2x?x40xf16>, tensor<1x2x?x40xf16>, tensor<1x2x?x24xf16>) -> (tensor<1x2x?x24xf16>, tensor<1x2x?xf32>)
  func.return
}

// CHECK-LABEL: func.func @elementwise
// CHECK-NEXT: %y = tessera_rocm.elementwise(%x) {name = "mul_0", function = "mul", scalar = 3.000000e+00 : f64, alignment = 2 : i64, dtype = "f16", out_dtype = "f16"} : (tensor<4x6xf16>) -> tensor<4x6xf16>
// CHECK-NEXT: %z = tessera_rocm.view %y {kind = "permute", parameters = array<i64: 1, 0>} : tensor<4x6xf16> -> tensor<6x4xf16>
func.func @elementwise(%x: tensor<4x6xf16>) -> tensor<6x4xf16> {
  %y = tile.elementwise(%x) {name = "mul_0", function = "mul", scalar = 3.0 : f64, alignment = 2} : (tensor<4x6xf16>) -> tensor<4x6xf16>
  %z = tile.view %y {kind = "permute", parameters = array<i64: 1, 0>} : tensor<4x6xf16> -> tensor<6x4xf16>
  func.return %z : tensor<6x4xf16>
}

// CHECK-LABEL: func.func @backward
// CHECK-NEXT: tessera_rocm.mfma {for_kernel = "fab", m = 16 : i64, n = 16 : i64, k = 16 : i64, dtype = "f16", accumulator_dtype = "f32"}
// CHECK-NEXT: tessera_rocm.async_copy {for_kernel = "fab", operand = "q", rows = 32 : i64, columns = 64 : i64, dtype = "f16"}
// CHECK-NEXT: tessera_rocm.async_copy {for_kernel = "fab", operand = "k"
// CHECK-NEXT: tessera_rocm.async_copy {for_kernel = "fab", operand = "v"
// CHECK-NEXT: tessera_rocm.async_copy {for_kernel = "fab", operand = "do"
// CHECK-NEXT: tessera_rocm.wait {for_kernel = "fab", pending = 0 : i64}
// CHECK-NEXT: %dq, %dk, %dv = tessera_rocm.flash_attn_bwd(%q, %k, %k, %q, %lse, %q) {name = "fab", head_dim = 64 : i64, dtype = "f16", window_left = 7 : i64, waves = 4 : i64, rows_per_step = 32 : i64, alignment = 16 : i64}
func.func @backward(%q: tensor<1x2x?x64xf16>, %k: tensor<1x1x?x64xf16>, %lse: tensor<1x2x?xf32>) -> tensor<1x2x?x64xf16> {
  %dq, %dk, %dv = tile.flash_attn_bwd(%q, %k, %k, %q, %lse, %q) {name = "fab", window_left = 7, waves = 4, rows_per_step = 32, alignment = 16} : (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?xf32>, tensor<1x2x?x64xf16>) -> (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>)
  func.return %dq : tensor<1x2x?x64xf16>
}
