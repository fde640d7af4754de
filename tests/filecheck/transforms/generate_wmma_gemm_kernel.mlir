// RUN: tessera-opt %s -p generate-wmma-gemm-kernel,discharge-contracts,verify-level{level=kernel} | filecheck %s
// RUN: tessera-opt %s -p generate-wmma-gemm-kernel | tessera-opt -p discharge-contracts | filecheck %s

// A directive on its own leaves its kernel and nothing to launch it; one with operands becomes a
// launch of its kernel. Problem sizes are arguments of the kernel.
// CHECK: builtin.module {
// CHECK-NEXT: func.func @f
// CHECK-NEXT: %c = tessera_rocm.launch(%x, %y) {contract = "matmul", options = {{[{].*}}out_dtype = "f16"}, rules = "[{\22kernel\22:\22second\22,
// CHECK-NEXT: func.return %c
// CHECK: "gpu.module"
// CHECK: func.func {{.*}}@first(%a: !wave.pointer<f16>, %b: !wave.pointer<f16>, %c: !wave.pointer<f32>, %m: i32, %n: i32, %k: i32
// CHECK: wave.mma {{.*}} : !wave.fragment<16x16xf16, a>, !wave.fragment<16x16xf16, b>, !wave.fragment<16x16xf32, acc> -> !wave.fragment<16x16xf32, acc>
// CHECK: wave.store
// CHECK: func.func {{.*}}@second(%a: !wave.pointer<bf16>, %b: !wave.pointer<bf16>, %c: !wave.pointer<f16>
// CHECK: wave.alloc_lds
// CHECK-COUNT-2: wave.mma {{.*}}!wave.fragment<16x16xbf16, a>
// CHECK-NOT: tessera_rocm.
tessera_rocm.mfma {for_kernel = "first", m = 16, n = 16, k = 16, dtype = "f16", accumulator_dtype = "f32"}
tessera_rocm.wmma_gemm {name = "first", dtype = "f16", m = 16, n = 16, k = 16, mt = 1, nt = 1, waves_m = 1, waves_n = 1, block_k = 0} : () -> ()
func.func @f(%x: tensor<?x?xbf16>, %y: tensor<?x?xbf16>) -> tensor<?x?xf16> {
  %c = tessera_rocm.wmma_gemm(%x, %y) {name = "second", dtype = "bf16", m = 16, n = 16, k = 16, mt = 2, nt = 1, waves_m = 2, waves_n = 1, block_k = 16, out_dtype = "f16"} : (tensor<?x?xbf16>, tensor<?x?xbf16>) -> tensor<?x?xf16>
  func.return %c : tensor<?x?xf16>
}
