// RUN: tessera-opt %s -p tessera-lower-to-rocm --target gfx1151 | filecheck %s
// RUN: tessera-opt %s -p tessera-lower-to-tile,tile-to-rocm,check-contracts,verify-level{level=target} | filecheck %s
// RUN: tessera-opt %s -p tessera-lower-to-rocm | tessera-opt -p tessera-lower-to-rocm | filecheck %s

// CHECK-LABEL: func.func @layer
// CHECK-NEXT: %y = tessera_rocm.elementwise(%x) {name = "relu_0", function = "relu"
// CHECK-NEXT: tessera_rocm.mfma {for_kernel = "matmul_0"
// CHECK-NEXT: tessera_rocm.async_copy {for_kernel = "matmul_0", operand = "a"
// CHECK-NEXT: tessera_rocm.async_copy {for_kernel = "matmul_0", operand = "b"
// CHECK-NEXT: tessera_rocm.wait {for_kernel = "matmul_0", pending = 0 : i64}
// CHECK-NEXT: %c = tessera_rocm.wmma_gemm(%y, %w) {name = "matmul_0", m = 16 : i64, n = 16 : i64, k = 16 : i64, dtype = "f16", transpose_b = true,
// CHECK-NEXT: func.return %c
func.func @layer(%x: tensor<?x?xf16>, %w: tensor<?x?xf16>) -> tensor<?x?xf32> {
  %t = tessera.transpose %w : tensor<?x?xf16> -> tensor<?x?xf16>
  %y = tessera.elementwise(%x) {function = "relu"} : (tensor<?x?xf16>) -> tensor<?x?xf16>
  %c = tessera.matmul(%y, %t) : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  %dead = tessera.elementwise(%c) {function = "silu"} : (tensor<?x?xf32>) -> tensor<?x?xf32>
  func.return %c : tensor<?x?xf32>
}
