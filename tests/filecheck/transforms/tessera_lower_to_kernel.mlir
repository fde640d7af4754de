// RUN: tessera-opt %s -p tessera-lower-to-kernel,verify-level{level=kernel} --target gfx1151 | filecheck %s
// RUN: tessera-opt %s -p tessera-lower-to-rocm,tessera-rocm-to-kernel | tessera-opt | filecheck %s

// Three kernels with names of their own, and a host function that launches them.
// CHECK: func.func @mlp
// CHECK-NEXT: %c = tessera_rocm.launch(%x, %w1) {contract = "matmul"{{.*}}\22matmul_0\22
// CHECK-NEXT: %r = tessera_rocm.launch(%c) {contract = "elementwise"{{.*}}\22relu_0\22
// CHECK-NEXT: %d = tessera_rocm.launch(%r, %w2) {contract = "matmul"{{.*}}\22matmul_1\22
// CHECK-NEXT: func.return %d
// CHECK: "gpu.module"
// CHECK-SAME: kernels
// CHECK-DAG: func.func {{.*}}@matmul_0(
// CHECK-DAG: func.func {{.*}}@matmul_1(
// CHECK-DAG: func.func {{.*}}@relu_0(
func.func @mlp(%x: tensor<?x48xf16>, %w1: tensor<48x80xf16>, %w2: tensor<80x33xf16>) -> tensor<?x33xf32> {
  %c = tessera.matmul(%x, %w1) {out_dtype = "f16"} : (tensor<?x48xf16>, tensor<48x80xf16>) -> tensor<?x80xf16>
  %r = tessera.elementwise(%c) {function = "relu"} : (tensor<?x80xf16>) -> tensor<?x80xf16>
  %d = tessera.matmul(%r, %w2) : (tensor<?x80xf16>, tensor<80x33xf16>) -> tensor<?x33xf32>
  func.return %d : tensor<?x33xf32>
}
