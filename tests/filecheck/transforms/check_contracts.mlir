// RUN: tessera-opt %s -p check-contracts --target gfx1151 --split-input-file --verify-diagnostics | filecheck %s
// RUN: tessera-opt %s -p check-contracts --target gfx1100 --split-input-file --verify-diagnostics | filecheck %s --check-prefix OTHER

// What is fine comes out as it went in.
// CHECK: tessera_rocm.mfma {for_kernel = "fa"
// CHECK-NEXT: tessera_rocm.async_copy {for_kernel = "fa"
// CHECK-NEXT: tessera_rocm.wait {for_kernel = "fa"
// CHECK-NEXT: tessera_rocm.flash_attn {name = "fa"
tessera_rocm.mfma {for_kernel = "fa", m = 16, n = 16, k = 16, dtype = "f16", accumulator_dtype = "f32"}
tessera_rocm.async_copy {for_kernel = "fa", operand = "k", rows = 64, columns = 64, dtype = "f16"}
tessera_rocm.wait {for_kernel = "fa", pending = 1}
tessera_rocm.flash_attn {name = "fa", head_dim = 64, dtype = "f16"} : () -> ()

// -----
// CHECK: error: kernel name 'x' is used twice, by tessera_rocm.flash_attn and tessera_rocm.wmma_gemm; kernel names are symbols of one code object and must differ
tessera_rocm.flash_attn {name = "x", head_dim = 64, dtype = "f16"} : () -> ()
tessera_rocm.wmma_gemm {name = "x", dtype = "f16", m = 16, n = 16, k = 16, mt = 1, nt = 1} : () -> ()

// -----
// CHECK: error: tessera_rocm.mfma: no directive is named 'fb'; the module has fa
tessera_rocm.flash_attn {name = "fa", head_dim = 64, dtype = "f16"} : () -> ()
tessera_rocm.mfma {for_kernel = "fb", m = 16, n = 16, k = 16, dtype = "f16", accumulator_dtype = "f32"}

// -----
// CHECK: error: tessera_rocm.mfma of 'fa': gfx1151 has no instruction 32x32x8 f16 -> f32; supported: 16x16x16 f16 -> f32, 16x16x16 bf16 -> f32
// OTHER: error: tessera_rocm.mfma of 'fa': gfx1100 has no instruction 32x32x8
tessera_rocm.flash_attn {name = "fa", head_dim = 64, dtype = "f16"} : () -> ()
tessera_rocm.mfma {for_kernel = "fa", m = 32, n = 32, k = 8, dtype = "f16", accumulator_dtype = "f32"}

// -----
// CHECK: error: tessera_rocm.async_copy of 'fa': no operand 'w'; supported: q, k, v
tessera_rocm.flash_attn {name = "fa", head_dim = 64, dtype = "f16"} : () -> ()
tessera_rocm.async_copy {for_kernel = "fa", operand = "w", rows = 64, columns = 64, dtype = "f16"}

// -----
// CHECK: error: tessera_rocm.async_copy of 'fa': 65664 bytes of local memory (k: 32768, v: 32896); gfx1151 has 65536 per workgroup
tessera_rocm.flash_attn {name = "fa", head_dim = 256, dtype = "f16"} : () -> ()
tessera_rocm.async_copy {for_kernel = "fa", operand = "k", rows = 64, columns = 256, dtype = "f16"}
tessera_rocm.async_copy {for_kernel = "fa", operand = "v", rows = 64, columns = 257, dtype = "f16"}

// -----
// CHECK: error: tessera_rocm.wait of 'fa': pending = 2, but the kernel has 1 asynchronous copies
tessera_rocm.flash_attn {name = "fa", head_dim = 64, dtype = "f16"} : () -> ()
tessera_rocm.async_copy {for_kernel = "fa", operand = "k", rows = 64, columns = 64, dtype = "f16"}
tessera_rocm.wait {for_kernel = "fa", pending = 2}

// -----
// CHECK: error: tessera_rocm.wmma_gemm 'g': 2048 threads per workgroup; gfx1151 has at most 1024
tessera_rocm.wmma_gemm {name = "g", dtype = "f16", m = 16, n = 16, k = 16, mt = 1, nt = 1, waves_m = 8, waves_n = 8} : () -> ()
