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
// CHECK: func.func {{.*}}@without_lse_pre(%q: !wave.pointer<f16>, %k: !wave.pointer<f16>, %o: {{.*}}%lse: !wave.pointer<f32>, %delta: !wave.pointer<f32>
// CHECK: func.func {{.*}}@without_lse_dkdv(
// CHECK: func.func {{.*}}@without_lse_dq(
// CHECK: func.func {{.*}}@without_lse_dbias(
// CHECK: func.func {{.*}}@without_lse_dbias_sum(
// CHECK-NOT: tessera_rocm.
"tessera_rocm.flash_attn_bwd"() {name = "alone", head_dim = 64 : i64, dtype = "f16"} : () -> ()
func.func @f(%q: tensor<1x2x?x64xf16>, %k: tensor<1x1x?x64xf16>, %lse: tensor<1x2x?xf32>) -> tensor<1x2x?x64xf16> {
  %dq, %dk, %dv = tessera_rocm.flash_attn_bwd(%q, %k, %k, %q, %lse, %q) {name = "with_operands", head_dim = 64, dtype = "f16", causal = "top_left"} : (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?xf32>, tensor<1x2x?x64xf16>) -> (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>)
  func.return %dq : tensor<1x2x?x64xf16>
}
func.func @g(%q: tensor<1x2x?x64xf16>, %k: tensor<1x1x?x64xf16>, %bias: tensor<1x?xf32>) -> tensor<1x?xf32> {
  %dq, %dk, %dv, %dbias = tessera_rocm.flash_attn_bwd(%q, %k, %k, %q, %q, %bias) {name = "without_lse", head_dim = 64, dtype = "f16", bias_dtype = "f32", bias_gradient = true, compute_lse = true} : (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x?xf32>) -> (tensor<1x2x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x1x?x64xf16>, tensor<1x?xf32>)
  func.return %dbias : tensor<1x?xf32>
}
