// RUN: tessera-opt %s -p discharge-contracts | filecheck %s

// The kernel `done` has been generated, `open` has not.
// CHECK-NOT: "done"
// CHECK: tessera_rocm.mfma {for_kernel = "open"
// CHECK-NEXT: tessera_rocm.flash_attn {name = "open"
// CHECK-NEXT: func.func @f
// CHECK-NEXT: func.return
tessera_rocm.mfma {for_kernel = "done", m = 16, n = 16, k = 16, dtype = "f16", accumulator_dtype = "f32"}
tessera_rocm.mfma {for_kernel = "open", m = 16, n = 16, k = 16, dtype = "f16", accumulator_dtype = "f32"}
tessera_rocm.flash_attn {name = "open", head_dim = 64, dtype = "f16"} : () -> ()
func.func @f() {
  tessera_rocm.async_copy {for_kernel = "done", operand = "k", rows = 64, columns = 64, dtype = "f16"}
  tessera_rocm.wait {for_kernel = "done", pending = 0}
  func.return
}
