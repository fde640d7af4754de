// RUN: tessera-opt %s | tessera-opt | filecheck %s
// RUN: tessera-opt %s --print-op-generic | tessera-opt | filecheck %s
// RUN: tessera-opt %s -p verify-level{level=kernel} | filecheck %s

// CHECK-LABEL: func.func @launch
// CHECK-NEXT: %c = tessera_rocm.launch(%a, %b) {contract = "matmul", options = {transpose_b = true}, rules = "[]"} : (tensor<4x8xf16>, tensor<6x8xf16>) -> tensor<4x6xf32>
func.func @launch(%a: tensor<4x8xf16>, %b: tensor<6x8xf16>) -> tensor<4x6xf32> {
  %c = tessera_rocm.launch(%a, %b) {contract = "matmul", options = {transpose_b = true}, rules = "[]"} : (tensor<4x8xf16>, tensor<6x8xf16>) -> tensor<4x6xf32>
  func.return %c : tensor<4x6xf32>
}
