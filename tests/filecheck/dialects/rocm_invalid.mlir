// RUN: tessera-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: error: tessera_rocm.flash_attn: head_dim = 300 is not supported; supported: 1 to 256
"tessera_rocm.flash_attn"() {name = "fa", head_dim = 300 : i64, dtype = "f16"} : () -> ()

// -----
// CHECK: error: tessera_rocm.flash_attn: head_dim_v = 0 is not supported; supported: 1 to 256
"tessera_rocm.flash_attn"() {name = "fa", head_dim = 64, head_dim_v = 0, dtype = "f16"} : () -> ()

// -----
// CHECK: error: tessera_rocm.flash_attn: dtype = 'f32'; supported: f16, bf16
"tessera_rocm.flash_attn"() {name = "fa", head_dim = 64, dtype = "f32"} : () -> ()

// -----
// CHECK: error: tessera_rocm.flash_attn: causal = 'yes'; supported: none, top_left, bottom_right
"tessera_rocm.flash_attn"() {name = "fa", head_dim = 64, dtype = "f16", causal = "yes"} : () -> ()

// -----
// CHECK: error: tessera_rocm.flash_attn: name = 'a b' is no identifier
"tessera_rocm.flash_attn"() {name = "a b", head_dim = 64, dtype = "f16"} : () -> ()

// -----
// CHECK: error: attribute 'name' expected in operation 'tessera_rocm.flash_attn'
"tessera_rocm.flash_attn"() {head_dim = 64, dtype = "f16"} : () -> ()

// -----
// CHECK: error: tessera_rocm.flash_attn: unknown attribute 'dropout'; supported: {{.*}}head_dim, head_dim_v{{.*}}causal, scale
"tessera_rocm.flash_attn"() {name = "fa", head_dim = 64, dtype = "f16", dropout = 0.5 : f64} : () -> ()

// -----
// CHECK: error: tessera_rocm.flash_attn: head_dim = 64, but its operands have 32
func.func @f(%q: tensor<1x1x?x32xf16>) {
  %o, %lse = tessera_rocm.flash_attn(%q, %q, %q) {name = "fa", dtype = "f16", head_dim = 64} : (tensor<1x1x?x32xf16>, tensor<1x1x?x32xf16>, tensor<1x1x?x32xf16>) -> (tensor<1x1x?x32xf16>, tensor<1x1x?xf32>)
  func.return
}

// -----
// CHECK: error: tessera_rocm.flash_attn: dtype = bf16, but its operands are f16
func.func @f(%q: tensor<1x1x?x32xf16>) {
  %o, %lse = tessera_rocm.flash_attn(%q, %q, %q) {name = "fa", dtype = "bf16", head_dim = 32} : (tensor<1x1x?x32xf16>, tensor<1x1x?x32xf16>, tensor<1x1x?x32xf16>) -> (tensor<1x1x?x32xf16>, tensor<1x1x?xf32>)
  func.return
}

// -----
// CHECK: error: tessera_rocm.flash_attn: flash_attn: takes 3 operands (q, k, v), got 1
func.func @f(%q: tensor<1x1x?x32xf16>) {
  %o, %lse = tessera_rocm.flash_attn(%q) {name = "fa", dtype = "f16", head_dim = 32} : (tensor<1x1x?x32xf16>) -> (tensor<1x1x?x32xf16>, tensor<1x1x?xf32>)
  func.return
}

// -----
// CHECK: error: tessera_rocm.wmma_gemm: k = 32; supported: 16
"tessera_rocm.wmma_gemm"() {name = "g", dtype = "f16", m = 16, n = 16, k = 32, mt = 1, nt = 1} : () -> ()

// -----
// CHECK: error: tessera_rocm.wmma_gemm: block_k = 24 is no multiple of k = 16
"tessera_rocm.wmma_gemm"() {name = "g", dtype = "f16", m = 16, n = 16, k = 16, mt = 1, nt = 1, block_k = 24} : () -> ()

// -----
// CHECK: error: tessera_rocm.wmma_gemm: nt = 0 must be a positive integer
"tessera_rocm.wmma_gemm"() {name = "g", dtype = "f16", m = 16, n = 16, k = 16, mt = 1, nt = 0} : () -> ()

// -----
// CHECK: error: tessera_rocm.wmma_gemm: out_dtype = 'f64'; supported: f16, bf16, f32
"tessera_rocm.wmma_gemm"() {name = "g", dtype = "f16", m = 16, n = 16, k = 16, mt = 1, nt = 1, out_dtype = "f64"} : () -> ()

// -----
// CHECK: error: tessera_rocm.elementwise: silu takes no scalar
"tessera_rocm.elementwise"() {name = "s", function = "silu", dtype = "f16", out_dtype = "f16", scalar = 1.0 : f64} : () -> ()

// -----
// CHECK: error: tessera_rocm.async_copy: rows = 0 must be a positive integer
tessera_rocm.async_copy {for_kernel = "fa", operand = "k", rows = 0, columns = 64, dtype = "f16"}

// -----
// CHECK: error: tessera_rocm.wait: pending = -1 must be at least 0
tessera_rocm.wait {for_kernel = "fa", pending = -1}

// -----
// CHECK: error: tessera_rocm.mfma: accumulator_dtype = 'f16'; supported: f32
tessera_rocm.mfma {for_kernel = "fa", m = 16, n = 16, k = 16, dtype = "f16", accumulator_dtype = "f16"}

// -----
// CHECK: error: tessera_rocm.view: permute: [1] does not name each of the 2 axes once
func.func @f(%x: tensor<2x3xf16>) {
  %y = tessera_rocm.view %x {kind = "permute", parameters = array<i64: 1>} : tensor<2x3xf16> -> tensor<3x2xf16>
  func.return
}

// -----
// CHECK: error: tessera_rocm.launch: rules are no JSON
func.func @f(%a: tensor<4x4xf16>) {
  %c = tessera_rocm.launch(%a, %a) {contract = "matmul", options = {}, rules = "x"} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
  func.return
}

// -----
// CHECK: error: tessera_rocm.launch: contract = 'conv'; supported: matmul, flash_attn
func.func @f(%a: tensor<4x4xf16>) {
  %c = tessera_rocm.launch(%a, %a) {contract = "conv", options = {}, rules = "[]"} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
  func.return
}

// -----
// CHECK: error: tessera_rocm.flash_attn_bwd: window_left = -1 must be a number of keys from 0 to 2^31 - 1
"tessera_rocm.flash_attn_bwd"() {name = "fa", head_dim = 64, dtype = "f16", window_left = -1 : i64} : () -> ()

// -----
// CHECK: error: tessera_rocm.flash_attn_bwd: softcap = 0.0 is not supported; supported: 1e-10 to 1e+20
"tessera_rocm.flash_attn_bwd"() {name = "fa", head_dim = 64, dtype = "f16", softcap = 0.0 : f64} : () -> ()

// -----
// CHECK: error: tessera_rocm.flash_attn_bwd: bias with variable_lengths is not built
"tessera_rocm.flash_attn_bwd"() {name = "fa", head_dim = 64, dtype = "f16", bias_dtype = "f32", variable_lengths = true} : () -> ()

// -----
// CHECK: error: tessera_rocm.flash_attn_bwd: rows_per_step = 0 must be a positive integer
"tessera_rocm.flash_attn_bwd"() {name = "fa", head_dim = 64, dtype = "f16", rows_per_step = 0} : () -> ()

// -----
// CHECK: error: tessera_rocm.flash_attn_bwd: bias_gradient without a bias (bias_dtype)
"tessera_rocm.flash_attn_bwd"() {name = "fa", head_dim = 64, dtype = "f16", bias_gradient = true} : () -> ()
