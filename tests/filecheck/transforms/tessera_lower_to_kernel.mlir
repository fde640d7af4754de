// RUN: tessera-opt %s -p tessera-lower-to-kernel,verify-level{level=kernel} --target gfx1151 | filecheck %s
// RUN: tessera-opt %s -p tessera-lower-to-rocm,tessera-rocm-to-kernel | tessera-opt | filecheck %s

// Three kernels with names of their own, and a host function that launches them.
// CHECK: func.func @mlp
// CHECK-NEXT: %r = tessera_rocm.launch(%x) {contract = "elementwise"{{.*}}\22relu_0\22
// CHECK-NEXT: %c = tessera_rocm.launch(%r, %w1) {contract = "matmul"{{.*}}\22matmul_0\22
// CHECK-NEXT: %{{.*}} = tessera_rocm.launch(%c, %w2) {contract = "matmul"{{.*}}activation = "relu"{{.*}}\22matmul_1\22
// CHECK-NEXT: func.return
// CHECK: "gpu.module"
// CHECK-SAME: kernels
// CHECK-DAG: func.func {{.*}}@matmul_0(
// CHECK-DAG: func.func {{.*}}@matmul_1(
// CHECK-DAG: func.func {{.*}}@relu_0(
func.func @mlp(%x: tensor<?x48xf16>, %w1: tensor<48x80xf16>, %w2: tensor<80x33xf16>) -> tensor<?x33xf32> {
  %r = tessera.elementwise(%x) {function = "relu"} : (tensor<?x48xf16>) -> tensor<?x48xf16>
  %c = tessera.matmul(%r, %w1) {out_dtype = "f16"} : (tensor<?x48xf16>, tensor<48x80xf16>) -> tensor<?x80xf16>
  %d = tessera.matmul(%c, %w2) : (tensor<?x80xf16>, tensor<80x33xf16>) -> tensor<?x33xf32>
  %e = tessera.elementwise(%d) {function = "relu"} : (tensor<?x33xf32>) -> tensor<?x33xf32>
  func.return %e : tensor<?x33xf32>
}
