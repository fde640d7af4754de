// RUN: tessera-opt %s -p generate-wmma-flash-attn-bwd-kernel,verify-level{level=kernel} | filecheck %s

// CHECK: func.func @f
// CHECK-NEXT: %dq, %dk, %dv = tessera_rocm.launch(%q, %k, %k, %q, %lse, %q) {contract = "flash_attn_bwd", options = {{[{].*}}causal = "top_left"{{.*}}}, rules = "[{\22kernel\22:\22with_operands_pre\22,
// CHECK-NEXT: func.return %dq
// CHECK: "gpu.module"
// CHECK: func.func {{.*}}@alone_pre(%o: !wave.pointer<f16>, %do: !wave.pointer<f16>, %delta: !wave.pointer<f32>
// CHECK: wave.dot
// CHECK: wave.store_statistic
// CHECK: func.func {{.*}}@alone_dkdv(%q: !wave.pointer<f16>, %k: !wave.pointer<f16>, %v: !wave.pointer<f16>, %do: !wave.pointer<f16>, %dk: !wave.pointer<f16>, %dv: !wave.pointer<f16>, %lse: !wave.pointer<f32>, %delta: !wave.pointer<f32>
// CHECK: wave.mma
// CHECK: math.exp2
// CHECK: wave.convert
// CHECK: func.func {{.*}}@alone_dq(%q: !wave.pointer<f16>
// CHECK: wave.mma
// CHECK: math.exp2
// CHECK: wave.convert
// CHECK: func.func {{.*}}@with_operands_pre(
// CHECK: func.func {{.*}}@with_operands_dkdv(
// CHECK: func.func {{.*}}@with_operands_dq(
// CHECK-NOT: tessera_rocm.
"tessera_rocm.flash_attn_bwd"() {name = "alone", head_dim = 64 : i64, dtype = "f16"} : () -> ()
func.func @f(%q: tensor<1x2x?x64xf16>, %k: tensor<1x1x?x64xf16>, %lse: tensor<1x2x?xf32>) -> tensor<1x2x?x64xf16> {
  %dq, %dk, %dv = tessera_rocm.flash_attn_bwd(%q, %k, %k, %q, %lse, %q) {name = "with_operands", head_dim = 64, dtype = "f16", causal = "top_left"} : (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?xf32>, tensor<1x2x?x64xf16>) -> (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>)
  func.return %dq : tensor<1x2x?x64xf16>
}
