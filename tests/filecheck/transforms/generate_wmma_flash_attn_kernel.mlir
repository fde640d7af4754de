// RUN: tessera-opt %s -p generate-wmma-flash-attn-kernel,verify-level{level=kernel} | filecheck %s

// CHECK: func.func @f
// CHECK-NEXT: %o, %lse = tessera_rocm.launch(%q, %q, %q) {contract = "flash_attn", options = {{[{].*}}causal = "top_left"{{.*}}}, rules = "[{\22kernel\22:\22with_operands\22,
// CHECK-NEXT: func.return %o
// CHECK: "gpu.module"
// CHECK: func.func {{.*}}@alone(%q: !wave.pointer<f16>, %k: !wave.pointer<f16>, %v: !wave.pointer<f16>, %o: !wave.pointer<f16>, %lse: !wave.pointer<f32>
// CHECK: wave.alloc_lds
// CHECK: wave.mma
// CHECK: wave.reduce {{.*}}kind = "max"
// CHECK: math.exp2
// CHECK: wave.convert
// CHECK: wave.store_statistic
// CHECK: func.func {{.*}}@with_operands(%q: !wave.pointer<bf16>
// CHECK-NOT: tessera_rocm.
"tessera_rocm.flash_attn"() {name = "alone", head_dim = 64 : i64, dtype = "f16"} : () -> ()
func.func @f(%q: tensor<?x?x?x40xbf16>) -> tensor<?x?x?x40xbf16> {
  %o, %lse = tessera_rocm.flash_attn(%q, %q, %q) {name = "with_operands", head_dim = 40, dtype = "bf16", causal = "top_left"} : (tensor<?x?x?x40xbf16>, tensor<?x?x?x40xbf16>, tensor<?x?x?x40xbf16>) -> (tensor<?x?x?x40xbf16>, tensor<?x?x?xf32>)
  func.return %o : tensor<?x?x?x40xbf16>
}
